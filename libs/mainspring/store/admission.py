"""Admitting jobs of queues with a concurrency limit, under the limit row's lock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from mainspring.domain.admission import split_by_room
from mainspring.domain.job import JobRef
from mainspring.store.pool import Conn
from mainspring.store.sql import load

_SQL = load("admission")


@dataclass(frozen=True, slots=True)
class Admission:
    """What became of a message's jobs: admitted with new tickets, blocked, or stale."""

    admitted: tuple[JobRef, ...]
    blocked: int
    stale: int


async def admit(connection: Conn, queue: str, refs: Sequence[JobRef]) -> Admission | None:
    """Admit as many of ``refs`` as the queue's limit has room for, block the others.

    Call it in a transaction of its own, and publish after its commit. None when the queue has no limit: then
    the jobs go on under the tickets that they have.
    """
    limit = await connection.fetchrow(_SQL["lock_limit"], queue)
    if limit is None:
        return None
    held = await connection.fetchval(_SQL["slots_held"], queue)
    current = await _current(connection, refs)
    admitted, blocked = split_by_room(current, limit["most"], held)
    rows = await connection.fetch(_SQL["admit"], [ref.id for ref in admitted]) if admitted else []
    if blocked:
        await connection.execute(_SQL["block"], [ref.id for ref in blocked])
    fences = {row["id"]: row["fence"] for row in rows}
    tickets = tuple(JobRef(ref.id, fences[ref.id]) for ref in admitted)
    return Admission(tickets, len(blocked), len(refs) - len(current))


async def _current(connection: Conn, refs: Sequence[JobRef]) -> list[JobRef]:
    ids, tickets = zip(*refs, strict=True)
    rows = await connection.fetch(_SQL["lock_candidates"], ids, tickets)
    locked = {JobRef(row["id"], row["fence"]) for row in rows}
    return [ref for ref in refs if ref in locked]


async def return_paused(connection: Conn, queue: str, refs: Sequence[JobRef], delay: timedelta) -> int | None:
    """The jobs of a paused queue wait in Postgres again, for ``delay`` at least; returns how many were current.

    None when the queue isn't paused (any more): then nothing was changed, and the jobs may go on.
    """
    ids, tickets = zip(*refs, strict=True)
    row = await connection.fetchrow(_SQL["return_paused"], ids, tickets, queue, delay)
    return int(row["returned"]) if row and row["is_paused"] else None
