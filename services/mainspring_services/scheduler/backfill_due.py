"""Makes the jobs of backfills, as their earlier ones end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from mainspring.runtime import backfill
from mainspring.runtime.loop import Pass
from mainspring.store import backfills
from mainspring.store.backfills import NONE
from mainspring.store.pool import Database

#: How soon the next job follows one that has ended.
BUSY_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class BackfillDue:
    """The loop's configuration. ``wake_release`` is called when jobs were made."""

    database: Database
    wake_release: Callable[[], None]

    async def run_once(self) -> Pass:
        """Look once at every backfill that runs, in a transaction each."""
        made, last = 0, NONE
        while await self._runs_after(last):
            found = await self._go_on(last)
            if found is None:
                break
            last = found[0]
            made += found[1]
        if made:
            self.wake_release()
        return Pass(done=made, wait=None if last == NONE else BUSY_SECONDS)

    async def _runs_after(self, after: UUID) -> bool:
        return await self.database.run(lambda connection: backfills.runs_after(connection, after))

    async def _go_on(self, after: UUID) -> tuple[UUID, int] | None:
        return await self.database.run_in_transaction(lambda connection: backfill.go_on(connection, after))
