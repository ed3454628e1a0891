"""Leadership: one process at a time holds a duty's lease row, and its term fences what it does.

The row lives for 15 s and is renewed each 5 s, but not while a duty hangs: another process is to take over then. The
holder trusts its claim for less than that, by its own clock, so that one that was frozen begins nothing. A duty's
transaction first locks the row ``FOR KEY SHARE`` with its term; a takeover changes the term, a key column, and so
waits for that transaction. A frozen leader that wakes up finds another term and does nothing.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import AsyncIterator
from datetime import timedelta

from mainspring.boot_clock import boot_time
from mainspring.runtime.loop import Pass
from mainspring.store import fleet
from mainspring.store.pool import Conn, Database
from mainspring.telemetry import metrics
from mainspring.telemetry.logs import get_logger

log = get_logger(__name__)
TTL = timedelta(seconds=15)
RENEW_SECONDS = 5.0
#: How long after a renewal was sent a holder still begins a duty, in seconds.
TRUST_SECONDS = TTL.total_seconds() - 3
#: A duty's transaction that has been open for longer, in seconds, hangs: its statements alone may take 15.
HANGS_SECONDS = 60.0


class Leadership:
    """This process's claim to a duty. Identified by chance, never by a host's name."""

    def __init__(self, database: Database, duty: str) -> None:
        self._database = database
        self._duty = duty
        self._holder = uuid.uuid4()
        self._term: int | None = None
        self._trusted_until = 0.0
        #: When the transactions of duties began that are open.
        self._busy_since: dict[object, float] = {}

    @property
    def is_held(self) -> bool:
        """True while the last renewal is surely good; only ``transaction`` proves it."""
        return self._term is not None and boot_time() < self._trusted_until

    async def renew(self) -> Pass:
        """Take the lease, or renew it: run it as a loop each RENEW_SECONDS."""
        sent_at = boot_time()
        if any(sent_at - since > HANGS_SECONDS for since in self._busy_since.values()):
            log.error("a duty hangs: the lease is not renewed", duty=self._duty)
            return Pass()
        self._term = await self._database.run(
            lambda connection: fleet.take_leadership(connection, self._duty, self._holder, TTL)
        )
        self._trusted_until = sent_at + TRUST_SECONDS
        metrics.LEADER.set(1 if self.is_held else 0)
        return Pass(done=int(self.is_held))

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Conn | None]:
        """A transaction that commits only under our term; None when it isn't ours (any more)."""
        term = self._term
        if term is None or not self.is_held:
            yield None
            return
        duty = object()
        self._busy_since[duty] = boot_time()
        try:
            async with self._database.transaction() as connection:
                is_ours = await fleet.hold_leadership(connection, self._duty, self._holder, term)
                yield connection if is_ours else None
        finally:
            del self._busy_since[duty]

    async def give_up(self) -> None:
        """Let another process take over at once. Raises DatabaseUnavailable."""
        await self._database.run(lambda connection: fleet.give_up_leadership(connection, self._duty, self._holder))
