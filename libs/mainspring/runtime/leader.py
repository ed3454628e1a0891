"""Leadership: one process at a time holds a duty's lease row, and its term fences what it does.

The row lives for 15 s and is renewed each 5 s. A duty's transaction first locks the row ``FOR KEY SHARE`` with
its term; a takeover changes the term, a key column, and so waits for that transaction. A frozen leader that
wakes up finds another term and does nothing.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import AsyncIterator
from datetime import timedelta

from mainspring.runtime.loop import Pass
from mainspring.store import fleet
from mainspring.store.pool import Conn, Database
from mainspring.telemetry import metrics

TTL = timedelta(seconds=15)
RENEW_SECONDS = 5.0


class Leadership:
    """This process's claim to a duty. Identified by chance, never by a host's name."""

    def __init__(self, database: Database, duty: str) -> None:
        self._database = database
        self._duty = duty
        self._holder = uuid.uuid4()
        self._term: int | None = None

    @property
    def is_held(self) -> bool:
        """True when the last renewal succeeded; only ``transaction`` proves it."""
        return self._term is not None

    async def renew(self) -> Pass:
        """Take the lease, or renew it: run it as a loop each RENEW_SECONDS."""
        self._term = await self._database.run(
            lambda connection: fleet.take_leadership(connection, self._duty, self._holder, TTL)
        )
        metrics.LEADER.set(1 if self.is_held else 0)
        return Pass(done=int(self.is_held))

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Conn | None]:
        """A transaction that commits only under our term; None when it isn't ours (any more)."""
        term = self._term
        if term is None:
            yield None
            return
        async with self._database.transaction() as connection:
            is_ours = await fleet.hold_leadership(connection, self._duty, self._holder, term)
            yield connection if is_ours else None

    async def give_up(self) -> None:
        """Let another process take over at once. Raises DatabaseUnavailable."""
        await self._database.run(lambda connection: fleet.give_up_leadership(connection, self._duty, self._holder))
