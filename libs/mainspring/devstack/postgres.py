"""Postgres: a private instance and what tests ask of it."""

from __future__ import annotations

import os
import shutil
import signal
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from mainspring.devstack.keeper import free_shared_memory
from mainspring.devstack.log import ServerLog
from mainspring.devstack.ports import free_ports
from mainspring.devstack.process import run
from mainspring.devstack.server import Server

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping
    from pathlib import Path

    from mainspring.devstack.workspace import Workspace

SETTINGS: Mapping[str, str] = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "log_min_messages": "warning",
    "max_wal_size": "4GB",
    # Dynamic shared memory as files among the data: killed servers would fill /dev/shm.
    "dynamic_shared_memory_type": "mmap",
}


class PostgresProgram:
    """How a private Postgres is made and started."""

    name = "Postgres"
    stop_signal = signal.SIGINT  # its fast shutdown: sessions are ended, a checkpoint is written

    def __init__(
        self, workspace: Workspace, binaries: Path, settings: Mapping[str, str], *, folder: str = "postgres"
    ) -> None:
        self.port = 0
        self._workspace = workspace
        self._binaries = binaries
        self._settings = {**SETTINGS, **settings}
        self._home = workspace.folder(folder)
        self._data = self._home / "data"
        self.log = ServerLog(self._home / "log")

    def choose_ports(self) -> None:
        """Take another free port."""
        (self.port,) = free_ports(1)

    def create(self) -> None:
        """Make an empty cluster, unless there is one; who can connect needs no password."""
        if not (self._data / "PG_VERSION").exists():
            initdb = [str(self._binaries / "initdb"), "-D", str(self._data), "-U", "postgres"]
            self._workspace.run([*initdb, "--auth=trust", "-E", "UTF8", "--locale=C.UTF-8", "-N"])

    def erase(self) -> None:
        """Delete the cluster."""
        if (pid_file := self._data / "postmaster.pid").exists():  # after a kill
            free_shared_memory(pid_file)
        shutil.rmtree(self._data)

    def launch(self) -> subprocess.Popen[bytes]:
        """Start the postmaster in the foreground."""
        settings = [f"--{name}={value}" for name, value in self._settings.items()]
        postgres = [str(self._binaries / "postgres"), "-D", str(self._data), "-p", str(self.port)]
        return self._workspace.spawn([*postgres, *settings], {}, self.log.path)

    def is_ready(self, pid: int) -> bool:
        """Whether the postmaster itself says so, in line 8 of its pid file (PostgreSQL's pidfile.h)."""
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) >= 8 and lines[0] == str(pid) and lines[7].strip() == "ready"

    def close(self) -> None:
        """Nothing runs beside the postmaster's own tree."""


class Postgres(Server):
    """A Postgres server, private or given by its URL."""

    def __init__(self, psql: Path, program: PostgresProgram | None = None, url: str = "") -> None:
        super().__init__("Postgres", program)
        self._psql = psql
        self._postgres = program
        self._given_url = url

    @property
    def url(self) -> str:
        """The URL of the database `postgres`, or the URL that was given."""
        if self._postgres is None:
            return self._given_url
        return f"postgresql://postgres@127.0.0.1:{self._postgres.port}/postgres"

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._postgres.port if self._postgres else urlsplit(self.url).port or 5432

    def create_database(self, name: str, template: str | None = None) -> str:
        """Create a database, a copy of the template if one is named; returns its URL, raises RefusedError."""
        # By files it takes a third of the time that it takes through the log, which is the default.
        copied = f" TEMPLATE {_quoted(template)} STRATEGY FILE_COPY" if template else ""
        self.execute(f"CREATE DATABASE {_quoted(name)}{copied}")
        return urlsplit(self.url)._replace(path=f"/{quote(name)}").geturl()

    def drop_database(self, name: str) -> None:
        """Drop a database and end the sessions in it; one that is not there is no fault."""
        self.execute(f"DROP DATABASE IF EXISTS {_quoted(name)} WITH (FORCE)")

    def database_exists(self, name: str) -> bool:
        """Whether there is a database of this name."""
        literal = name.replace("'", "''")
        return self.execute(f"SELECT 1 FROM pg_database WHERE datname = '{literal}'") == "1"  # noqa: S608 — quoted

    def execute(self, sql: str, url: str | None = None) -> str:
        """Run one statement through psql; returns its rows as bare text, raises RefusedError."""
        argv = [str(self._psql), "-XqAt", "-v", "ON_ERROR_STOP=1", "-d", url or self.url, "-c", sql]
        # A given server may lean on PGPASSWORD and the like; a private one must not be misled by them.
        return run(argv, env={} if self.is_ours else dict(os.environ)).strip()


def _quoted(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'
