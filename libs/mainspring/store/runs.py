"""The runs of a schedule: what became of its earlier jobs, and the later ones that wait for them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from uuid import UUID

from mainspring.context import LastRun
from mainspring.store.pool import Conn
from mainspring.store.sql import load

_SQL = load("runs")


async def last_run(connection: Conn, schedule: str, other_than: UUID, *, succeeded: bool) -> LastRun | None:
    """The job of a schedule that ended last, or that succeeded last."""
    row = await connection.fetchrow(_SQL["last_run"], schedule, other_than, succeeded)
    if row is None:
        return None
    result, error = (json.loads(row[name]) if row[name] is not None else None for name in ("result", "error"))
    return LastRun(row["job_id"], row["state"], row["finished_at"], row["nominal_at"], result, error)


async def hold(connection: Conn, jobs: Sequence[UUID]) -> None:
    """Keep these jobs back until ``let_go``."""
    if jobs:
        await connection.execute(_SQL["hold"], list(jobs))


async def with_held(connection: Conn, after: str, most: int) -> list[str]:
    """A page of the schedules that have jobs kept back."""
    return [row["schedule"] for row in await connection.fetch(_SQL["with_held"], after, most)]


async def let_go(connection: Conn, schedule: str) -> bool:
    """Let the first job that is kept back be due, if no other job of the schedule waits or runs."""
    return bool(await connection.fetchrow(_SQL["let_go"], schedule))
