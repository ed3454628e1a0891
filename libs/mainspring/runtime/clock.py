"""One clock: Postgres's. A process measures how far its own is off, and exports it; it never compares the two."""

from __future__ import annotations

import time
from datetime import datetime

from mainspring.store import fleet
from mainspring.store.pool import Conn

#: A jump of Postgres's clock against a monotonic one that is no measuring error.
STEP_SECONDS = 1.0


async def offset(connection: Conn) -> float:
    """Seconds that this process's wall clock is ahead of Postgres's."""
    before = time.time()
    return ahead(before, await fleet.now(connection), time.time())


def ahead(before: float, there: datetime, after: float) -> float:
    """Seconds that a wall clock, read ``before`` and ``after`` a round trip, is ahead of the one ``there``."""
    return (before + after) / 2 - there.timestamp()


class StepDetector:
    """Notices that Postgres's clock jumped, by the pace of this process's monotonic clock."""

    def __init__(self) -> None:
        self._offset: float | None = None

    def has_stepped(self, database_time: float, monotonic: float) -> bool:
        """True when the clock moved forward by more than the time that passed since the last look."""
        offset = database_time - monotonic
        stepped = self._offset is not None and offset - self._offset > STEP_SECONDS
        self._offset = offset
        return stepped
