"""The history of attempts: one row each, written when it ends, never changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from mainspring.store.pool import Conn
from mainspring.store.sql import load

_SQL = load("attempts")


async def recorded(connection: Conn, attempts: Sequence[tuple[UUID, int]]) -> set[tuple[UUID, int]]:
    """Those of ``attempts`` (job id, fence) that have ended: the answer to "was my settlement committed?"."""
    ids, fences = zip(*attempts, strict=True)
    rows = await connection.fetch(_SQL["recorded"], ids, fences)
    return {(row["job_id"], row["fence"]) for row in rows}


async def attempts_of(connection: Conn, job_id: UUID) -> list[Any]:
    """All attempts of a job, the oldest first."""
    return list(await connection.fetch(_SQL["attempts_of"], job_id))
