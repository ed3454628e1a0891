"""The schedules whose next nominal times were computed by other zone data than this process's."""

from __future__ import annotations

from datetime import datetime

from mainspring.domain.zones import zone_data_version
from mainspring.store.pool import Conn
from mainspring.store.schedules import StoredSchedule
from mainspring.store.sql import load

_SQL = load("other_zone_data")


class OtherSchedule(StoredSchedule):
    """A schedule whose next nominal time was computed by other zone data."""

    __slots__ = ()

    @property
    def decided_until(self) -> datetime:
        """Up to which instant its nominal times are decided: they fired, were skipped, or were before its time."""
        since: datetime = self.row["active_since"]
        last: datetime | None = self.row["last_nominal_at"]
        return max(since, last or since)


async def lock_others(connection: Conn, after: str, most: int) -> list[OtherSchedule]:
    """A page by name of schedules that other zone data decided, locked."""
    return [OtherSchedule(row) for row in await connection.fetch(_SQL["lock_others"], after, zone_data_version(), most)]


async def lock_due_others(connection: Conn, most: int) -> list[OtherSchedule]:
    """Those among them whose fire is due, locked: only who has their zone data would fire them."""
    return [OtherSchedule(row) for row in await connection.fetch(_SQL["lock_due_others"], zone_data_version(), most)]
