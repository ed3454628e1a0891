"""Postgres as a primary and a synchronous standby, and a failover that can come again and again.

Services are given both hosts, and take the one that takes writes (libpq's ``target_session_attrs``). A commit is
answered when the standby has it too. Who fails over (here: the test) does so only to a standby that has kept up, and
builds the next standby where the old primary was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from mainspring.devstack import Postgres
from mainspring.devstack.errors import DevstackError, NotReadyError
from mainspring.devstack.postgres import PostgresProgram
from mainspring.devstack.workspace import Workspace

IN_STEP_SECONDS = 60.0
IN_STEP = """
SELECT count(*) FROM pg_stat_replication
WHERE state = 'streaming' AND sync_state = 'sync' AND flush_lsn >= '{written}'
"""


class PairedProgram(PostgresProgram):
    """A Postgres that is made as an empty cluster, or as a standby of ``leader``."""

    leader: PostgresProgram | None = None

    def choose_ports(self) -> None:
        """The first time only: services know the port."""
        if not self.port:
            super().choose_ports()

    def erase(self) -> None:
        """Delete the data, if there are any."""
        if self._data.exists():
            super().erase()

    def create(self) -> None:
        """Make the data, unless there are some."""
        if self.leader is None:
            super().create()
        elif not (self._data / "PG_VERSION").exists():
            source = ["-h", "127.0.0.1", "-p", str(self.leader.port), "-U", "postgres"]
            how = ["--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync"]
            self._workspace.run([str(self._binaries / "pg_basebackup"), "-D", str(self._data), *source, *how])


class PostgresPair:
    """The two of them. What is asked of a Postgres is asked of the primary."""

    def __init__(self, workspace: Workspace, binaries: Path, psql: Path, settings: Mapping[str, str]) -> None:
        self._programs = [
            PairedProgram(workspace, binaries, settings, folder=f"postgres-{letter}") for letter in ("a", "b")
        ]
        self._servers = [Postgres(psql, one) for one in self._programs]
        self._leader = 0
        self.failovers = 0

    @property
    def primary(self) -> Postgres:
        """The one that takes writes."""
        return self._servers[self._leader]

    @property
    def standby(self) -> Postgres:
        """The one that follows."""
        return self._servers[1 - self._leader]

    @property
    def url(self) -> str:
        """Both hosts in one URL, as MAINSPRING_DATABASE_URL takes it; the same after a failover."""
        hosts = ",".join(f"127.0.0.1:{one.port}" for one in self._servers)
        return f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write"

    def begin(self) -> None:
        """Start the primary's process."""
        self.primary.begin()

    def finish(self) -> None:
        """Wait for the primary, and start the standby."""
        self.primary.finish()
        self._follow()

    def close(self) -> None:
        """Kill both."""
        for one in self._servers:
            one.close()

    def execute(self, sql: str) -> str:
        """Run one statement on the primary; raises RefusedError."""
        return self.primary.execute(sql)

    def start(self) -> None:
        """Start the primary again."""
        self.primary.start()

    def restart(self) -> None:
        """Restart the primary."""
        self.primary.restart()

    def kill(self) -> None:
        """SIGKILL to the primary."""
        self.primary.kill()

    def freeze(self) -> None:
        """SIGSTOP to the primary."""
        self.primary.freeze()

    def thaw(self) -> None:
        """SIGCONT."""
        self.primary.thaw()

    def fail_over(self, strike: Callable[[], None], afterwards: Callable[[], None] = lambda: None) -> None:
        """Strike the primary, promote the standby, do what comes afterwards, and build a new standby.

        Raises NotReadyError when the standby doesn't keep up.
        """
        self.wait_in_step()
        strike()
        self._leader = 1 - self._leader
        self.execute("SELECT pg_promote()")
        # Until it has a standby, the new primary waits for none.
        self._set_synchronous("RESET synchronous_standby_names")
        afterwards()
        self.failovers += 1
        self._follow()

    def wait_in_step(self) -> None:
        """Wait until the standby streams and has what was written so far."""
        written = self.execute("SELECT pg_current_wal_insert_lsn()")
        give_up_at = time.monotonic() + IN_STEP_SECONDS
        while self._ask(IN_STEP.format(written=written)) != "1":
            if time.monotonic() > give_up_at:
                raise NotReadyError("the standby doesn't keep up")
            time.sleep(0.05)

    def _ask(self, sql: str) -> str:
        try:
            return self.execute(sql)
        except DevstackError:  # every connection may be ended by a fault
            return ""

    def _follow(self) -> None:
        """Build the other server as the primary's standby, whatever it was before."""
        leader, follower = self._programs[self._leader], self._programs[1 - self._leader]
        follower.leader, leader.leader = leader, None
        self.standby.kill()
        follower.erase()
        self.standby.start()
        self._set_synchronous("SET synchronous_standby_names = '*'")
        self.wait_in_step()

    def _set_synchronous(self, what: str) -> None:
        for sql in (f"ALTER SYSTEM {what}", "SELECT pg_reload_conf()"):
            self.execute(sql)
