"""Firing: what is due, what became of each nominal time, and where a schedule stands afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from mainspring.domain.firing import SkippedRange
from mainspring.domain.zones import zone_data_version
from mainspring.store.pool import Conn
from mainspring.store.schedules import StoredSchedule
from mainspring.store.sql import columns, load
from mainspring.store.wakeups import CANCEL_CHANNEL

_SQL = load("fires")


class FireRow(NamedTuple):
    """What became of one nominal time, or of a run of them that make no job."""

    schedule: str
    nominal_at: datetime
    last_nominal_at: datetime
    nominal_times: int
    job_id: UUID | None
    skipped: str | None
    planned_at: datetime | None


class Step(NamedTuple):
    """Where a schedule stands after a fire."""

    schedule: str
    next_nominal_at: datetime | None
    fires_at: datetime | None
    #: Jobs that were made.
    runs: int
    last_local: datetime | None


def skipped_row(schedule: str, skip: SkippedRange) -> FireRow:
    """The row of a run of nominal times that make no job."""
    return FireRow(schedule, skip.first, skip.last, skip.count, None, skip.reason.value, None)


async def take_due(connection: Conn, most: int) -> list[StoredSchedule]:
    """Lock up to ``most`` schedules whose fire is due."""
    return [StoredSchedule(row) for row in await connection.fetch(_SQL["take_due"], most, zone_data_version())]


async def next_fire_in(connection: Conn) -> float | None:
    """Seconds until the next fire of any schedule, by Postgres's clock; None when there is none."""
    row = await connection.fetchrow(_SQL["next_fire"])
    return (row["fires_at"] - row["now"]).total_seconds() if row and row["fires_at"] else None


async def advance(connection: Conn, steps: Sequence[Step]) -> None:
    """Store the next nominal times, in the transaction that recorded the fires before them."""
    if steps:
        await connection.execute(_SQL["advance"], *columns(steps), zone_data_version())


async def pause_failing(connection: Conn, notes: Mapping[str, str]) -> None:
    """Pause schedules, each with its note."""
    if notes:
        await connection.execute(_SQL["pause_failing"], list(notes), list(notes.values()))


async def active_jobs(connection: Conn, names: Sequence[str]) -> dict[str, tuple[int, int]]:
    """For those of these schedules that have any: how many jobs wait, and how many run; a backfill's don't count."""
    if not names:
        return {}
    rows = await connection.fetch(_SQL["active_jobs"], names)
    return {row["schedule"]: (row["waiting"], row["running"]) for row in rows}


async def failing(connection: Conn, patience: Mapping[str, int]) -> set[str]:
    """Those of these schedules whose last jobs, as many as given for each, all died."""
    if not patience:
        return set()
    rows = await connection.fetch(_SQL["failing"], list(patience), list(patience.values()))
    return {row["schedule"] for row in rows}


async def cancel_running(connection: Conn, names: Sequence[str]) -> None:
    """Ask the running jobs of these schedules to stop."""
    if names:
        await connection.execute(_SQL["cancel_running"], names, CANCEL_CHANNEL)


async def recorded_between(
    connection: Conn, runs: Sequence[tuple[str, datetime, datetime]]
) -> list[list[tuple[datetime, datetime]]]:
    """For each run (schedule, first, last): the first and last nominal times of the records that begin in it."""
    found: list[list[tuple[datetime, datetime]]] = [[] for _ in runs]
    if runs:
        for row in await connection.fetch(_SQL["recorded_between"], *columns(runs)):
            found[row["place"] - 1].append((row["nominal_at"], row["last_nominal_at"]))
    return found


async def record(connection: Conn, rows: Iterable[FireRow], backfill: UUID | None = None) -> set[tuple[str, datetime]]:
    """Record what became of nominal times; returns the (schedule, nominal time) that nobody had recorded before.

    A run of skipped times must hold no nominal time that is recorded: ``runtime.ledger`` sees to that.
    """
    arrays = columns(rows)
    if not arrays:
        return set()
    recorded = await connection.fetch(_SQL["record"], *arrays, backfill)
    return {(row["schedule"], row["nominal_at"]) for row in recorded}


async def of(connection: Conn, name: str, before: datetime | None, most: int) -> list[Any]:
    """A page of what became of a schedule's nominal times, the latest first."""
    return list(await connection.fetch(_SQL["of"], name, before, most))


async def last_nominal_at(connection: Conn, name: str) -> datetime | None:
    """The last nominal time that was decided."""
    instant: datetime | None = await connection.fetchval(_SQL["last_nominal_at"], name)
    return instant
