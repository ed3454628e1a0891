"""The runs of a schedule: what became of its earlier jobs."""

from __future__ import annotations

import json
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
