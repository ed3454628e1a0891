"""The trace contexts that are stored with jobs."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from mainspring.domain.trace import JobTrace
from mainspring.store.pool import Conn
from mainspring.store.sql import load

_SQL = load("traces")


async def of_jobs(connection: Conn, ids: Sequence[UUID]) -> list[JobTrace]:
    """The traces of these jobs, in any order; a job that is gone has none."""
    return [JobTrace(row["id"], row["traceparent"]) for row in await connection.fetch(_SQL["of_jobs"], list(ids))]
