"""Lets a schedule's next job go when the earlier one has ended, where its overlap policy has them run one at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from mainspring.runtime.loop import Pass
from mainspring.store import runs, schedules
from mainspring.store.pool import Conn, Database

#: How soon a job follows the one that has ended.
BUSY_SECONDS = 0.2
_PAGE = 500


@dataclass(frozen=True, slots=True)
class LetGo:
    """The loop's configuration. ``wake_release`` is called when a job may go."""

    database: Database
    wake_release: Callable[[], None]

    async def run_once(self) -> Pass:
        """Look at every schedule that has jobs kept back, in a transaction each."""
        done, last, is_busy = 0, "", False
        while page := await self._page(last):
            is_busy, last = True, page[-1]
            for name in page:
                done += await self.database.run_in_transaction(_let_go(name))
        if done:
            self.wake_release()
        return Pass(done=done, wait=BUSY_SECONDS if is_busy else None)

    async def _page(self, after: str) -> list[str]:
        return await self.database.run(lambda connection: runs.with_held(connection, after, _PAGE))


def _let_go(name: str) -> Callable[[Conn], Awaitable[bool]]:
    async def work(connection: Conn) -> bool:
        # The name's lock, since the schedule itself may be gone; a fire has its row, and looks at the jobs after that.
        await schedules.lock_name(connection, name)
        await schedules.lock(connection, name)
        return await runs.let_go(connection, name)

    return work
