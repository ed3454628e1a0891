"""Backfills: past nominal times that a person wants jobs of."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from mainspring.store.fires import FireRow
from mainspring.store.pool import Conn
from mainspring.store.sql import load

_SQL = load("backfills")
NONE = UUID(int=0)


class Backfill(NamedTuple):
    """A backfill's row."""

    id: UUID
    schedule: str
    #: The nominal times of [start_at, end_at).
    start_at: datetime
    end_at: datetime
    #: Jobs of it that may be live at once.
    parallel: int
    nominal_times: int
    #: The next one to make a job of; None when all are made.
    next_nominal_at: datetime | None
    #: Jobs that were made: less than nominal times where some had jobs already.
    jobs: int
    state: str
    created_at: datetime
    finished_at: datetime | None


async def start(
    connection: Conn,
    id_: UUID,
    schedule: str,
    window: tuple[datetime, datetime],
    parallel: int,
    count: int,
    first: datetime,
) -> Backfill:
    """Write down a backfill; a scheduler makes its jobs."""
    rows = await connection.fetch(_SQL["start"], id_, schedule, *window, parallel, count, first)
    return Backfill(*rows[0])


async def of(connection: Conn, schedule: str, most: int) -> list[Backfill]:
    """A schedule's backfills, the latest first."""
    return [Backfill(*row) for row in await connection.fetch(_SQL["of"], schedule, most)]


async def runs_after(connection: Conn, after: UUID) -> bool:
    """True when a backfill runs whose id is higher."""
    return await connection.fetchval(_SQL["runs_after"], after) is True


async def take(connection: Conn, after: UUID) -> Backfill | None:
    """The next running backfill by id, locked; None when there is none."""
    row = await connection.fetchrow(_SQL["take"], after)
    return Backfill(*row) if row else None


async def active(connection: Conn, id_: UUID) -> int:
    """How many jobs of it wait or run."""
    count: int = await connection.fetchval(_SQL["active"], id_)
    return count


async def cancel_all(connection: Conn, schedule: str) -> None:
    """Make no more jobs of any backfill of a schedule."""
    await connection.execute(_SQL["cancel_all"], schedule)


async def keep_skipped(connection: Conn, rows: Sequence[FireRow], recorded_at: datetime) -> None:
    """Record what is left of a record of skipped nominal times."""
    columns = (
        [row.schedule for row in rows],
        [row.nominal_at for row in rows],
        [row.last_nominal_at for row in rows],
        [row.nominal_times for row in rows],
        [row.skipped for row in rows],
    )
    await connection.execute(_SQL["keep_skipped"], *columns, recorded_at)


async def go_on(connection: Conn, one: Backfill, next_nominal_at: datetime | None, made: int, state: str) -> None:
    """Store where it stands."""
    await connection.execute(_SQL["go_on"], one.id, next_nominal_at, made, state)


async def cancel(connection: Conn, id_: UUID, schedule: str) -> bool:
    """Make no more jobs of it; False when it isn't running."""
    return bool(await connection.fetchrow(_SQL["cancel"], id_, schedule))


async def mark_jobs(connection: Conn, jobs: Sequence[UUID], backfill: UUID) -> None:
    """These jobs are a backfill's."""
    await connection.execute(_SQL["mark_jobs"], list(jobs), backfill)


async def skipped_between(connection: Conn, schedule: str, first: datetime, last: datetime) -> list[Any]:
    """The records of skipped nominal times that lie in [first, last], or reach into it; locked."""
    return list(await connection.fetch(_SQL["skipped_between"], schedule, first, last))


async def drop_skipped(connection: Conn, schedule: str, nominal_at: datetime) -> None:
    """Delete the record of skipped nominal times that begins there: better ones take its place."""
    await connection.execute(_SQL["drop_skipped"], schedule, nominal_at)
