"""What a forecast has to know from the past: how long jobs ran. Each look reads a bounded number of rows."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.store import fleet
from mainspring.store.pool import Conn
from mainspring.store.sql import load

_SQL = load("forecast")


async def mean_seconds_of_schedules(connection: Conn, names: Sequence[str]) -> dict[str, float]:
    """The mean duration of the last 20 runs that succeeded within 8 days, for those of these schedules that have any.

    A run's duration is that of its last attempt.
    """
    rows = await connection.fetch(_SQL["of_schedules"], names)
    return {row["schedule"]: row["mean_seconds"] for row in rows}


async def mean_seconds_of_tasks(connection: Conn) -> dict[str, float]:
    """Likewise for each task that is among the last 10,000 jobs."""
    return {row["task"]: row["mean_seconds"] for row in await connection.fetch(_SQL["of_tasks"])}


async def slots(connection: Conn) -> int:
    """The slots of the workers that live."""
    return sum(row["slots"] for row in await fleet.workers(connection))
