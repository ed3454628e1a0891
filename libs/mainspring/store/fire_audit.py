"""What the auditor of fires reads: schedules in turn, and the record of their nominal times."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from mainspring.domain.zones import zone_data_version
from mainspring.store.pool import Conn
from mainspring.store.schedules import StoredSchedule
from mainspring.store.sql import load

_SQL = load("fire_audit")


class AuditedSchedule(StoredSchedule):
    """A schedule with what the auditor asks of it."""

    __slots__ = ()

    @property
    def active_since(self) -> datetime:
        """Since when every nominal time of its present trigger is to be recorded."""
        instant: datetime = self.row["active_since"]
        return instant

    @property
    def last_success(self) -> datetime | None:
        """When a job of it succeeded last."""
        instant: datetime | None = self.row["last_success"]
        return instant


async def page(connection: Conn, after: str, most: int) -> list[AuditedSchedule]:
    """The next schedules by name that fire."""
    rows = await connection.fetch(_SQL["page"], after, zone_data_version(), most)
    return [AuditedSchedule(row) for row in rows]


async def counts(connection: Conn, windows: Mapping[str, tuple[datetime, datetime]]) -> dict[str, int | None]:
    """How many nominal times are recorded in [start, end) of each schedule; None where a record crosses an edge."""
    starts, ends = zip(*windows.values(), strict=True) if windows else ((), ())
    rows = await connection.fetch(_SQL["counts"], list(windows), starts, ends)
    return {row["schedule"]: row["recorded"] for row in rows}


async def recorded(connection: Conn, schedule: str, start: datetime, end: datetime) -> list[tuple[datetime, datetime]]:
    """The first and last nominal times of the records that touch [start, end)."""
    rows = await connection.fetch(_SQL["recorded"], schedule, start, end)
    return [(row["nominal_at"], row["last_nominal_at"]) for row in rows]
