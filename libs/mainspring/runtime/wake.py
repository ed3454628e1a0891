"""Waking the scheduler: many wishes, few notifications.

NOTIFY takes a lock on the whole database at its commit, so it is sent after the submits' commit, by itself,
and all wishes that come while one is under way share the next.
"""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.domain.errors import DatabaseUnavailable
from mainspring.runtime.batcher import Batcher
from mainspring.store import fleet
from mainspring.store.pool import Database
from mainspring.store.wakeups import DUE_CHANNEL


class Wake:
    """``call()`` asks for a wake-up and returns at once."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._batcher: Batcher[None, None] = Batcher("wake", self._notify, most=100_000)

    def call(self) -> None:
        """Wake the schedulers soon. A lost wake-up costs at most their polling interval."""
        self._batcher.enqueue(None)

    async def _notify(self, wishes: Sequence[None]) -> Sequence[None]:
        try:
            await self._database.run(lambda connection: fleet.notify(connection, DUE_CHANNEL))
        except DatabaseUnavailable:
            return wishes
        return wishes
