"""Who has the place of jobs that are the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

import asyncpg

from mainspring.domain.errors import Conflict
from mainspring.domain.states import State
from mainspring.store.pool import Conn
from mainspring.store.sql import load

_SQL = load("unique")


class Holder(NamedTuple):
    """The job that has a place, how long ago it was submitted, and its state; None when it is gone."""

    job_id: UUID
    age: timedelta
    state: State | None


async def reserve(connection: Conn, places: Mapping[bytes, UUID]) -> set[bytes]:
    """Take places for new jobs; returns those that nobody had.

    Waits for another transaction that is taking one of them, for at most its lock_timeout; then raises Conflict.
    """
    keys, ids = zip(*sorted(places.items()), strict=True)
    try:
        return {row["key"] for row in await connection.fetch(_SQL["reserve"], keys, ids)}
    except asyncpg.LockNotAvailableError:
        raise Conflict("a job that is the same is being submitted by a request that has not ended; ask again") from None


async def lock(connection: Conn, keys: Iterable[bytes]) -> dict[bytes, Holder]:
    """Who has these places, locked until the transaction's end. Raises Conflict as ``reserve``."""
    try:
        rows = await connection.fetch(_SQL["lock"], sorted(keys))
    except asyncpg.LockNotAvailableError:
        raise Conflict("a job that is the same is being submitted by a request that has not ended; ask again") from None
    return {
        row["key"]: Holder(row["job_id"], row["age"], State(row["state"]) if row["state"] else None) for row in rows
    }


async def take_over(connection: Conn, key: bytes, job_id: UUID) -> None:
    """Give a locked place to a new job."""
    await connection.execute(_SQL["take_over"], key, job_id)
