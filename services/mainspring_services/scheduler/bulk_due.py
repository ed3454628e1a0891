"""Does the parts of bulk operations that are due."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from mainspring.runtime import bulk
from mainspring.runtime.loop import Pass
from mainspring.store import bulk as stored
from mainspring.store.pool import Database

#: How soon to look again when another scheduler is at it.
ELSEWHERE_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class BulkDue:
    """The loop's configuration. ``wake_release`` is called when jobs were put back to work."""

    database: Database
    wake_release: Callable[[], None]

    async def run_once(self) -> Pass:
        """Do the next part of each operation that is due, in a transaction each."""
        taken, last = 0, stored.NONE
        wait = await self.database.run(stored.next_in)
        if wait is not None and wait <= 0:
            while (found := await self._go_on(last)) is not None:
                last = found[0]
                taken += found[1]
            wait = await self.database.run(stored.next_in)
        if taken:
            self.wake_release()
        # What is due and was not taken is in another scheduler's hands.
        return Pass(done=taken, wait=None if wait is None else max(wait, 0.0 if taken else ELSEWHERE_SECONDS))

    async def _go_on(self, after: UUID) -> tuple[UUID, int] | None:
        return await self.database.run_in_transaction(lambda connection: bulk.go_on(connection, after))
