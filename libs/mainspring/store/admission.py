"""Admitting jobs that are under concurrency limits, under the lock of these limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from mainspring.domain.job import JobRef
from mainspring.domain.limits import Line, Rooms
from mainspring.store import limits
from mainspring.store.pool import Conn
from mainspring.store.sql import columns, load

_SQL = load("admission")


@dataclass(frozen=True, slots=True)
class Admission:
    """What became of a message's jobs: those that go on (admitted with new tickets, or under no limit), and counts."""

    admitted: tuple[JobRef, ...]
    blocked: int
    stale: int


async def admit(connection: Conn, queue: str, refs: Sequence[JobRef]) -> Admission | None:
    """Admit as many of ``refs`` as their limits have room for, block the others.

    Call it in a transaction of its own, and publish after its commit. None when no job is under a limit: then they go
    on under the tickets that they have.
    """
    tasks = await _current(connection, refs)
    locked = await limits.lock_concurrency(connection, queue, set(tasks.values()))
    if not locked:
        return None
    rooms = Rooms(tuple(locked))
    rooms.count(await limits.in_hand(connection, locked, released_too=False), released_too=False)
    lines = await _lines(connection, queue, tasks)
    # In the order of the message, which is that of priority.
    passing, admitted, blocked = _judge([ref for ref in refs if ref in tasks], lines, rooms)
    tickets = await _mark(connection, admitted, blocked, lines)
    going = tuple(
        JobRef(ref.id, tickets.get(ref.id, ref.ticket)) for ref in refs if ref in passing or ref.id in tickets
    )
    return Admission(going, len(blocked), len(refs) - len(tasks))


def _judge(refs: Sequence[JobRef], lines: dict[UUID, Line], rooms: Rooms) -> tuple[set[JobRef], list[UUID], list[UUID]]:
    """Those without a limit, those that are admitted, those that are blocked."""
    passing: set[JobRef] = set()
    admitted: list[UUID] = []
    blocked: list[UUID] = []
    for ref in refs:
        line = lines[ref.id]
        if not rooms.needs(line):
            passing.add(ref)
        elif rooms.room(line):
            rooms.take(line, 1)
            admitted.append(ref.id)
        else:
            blocked.append(ref.id)
    return passing, admitted, blocked


async def _mark(
    connection: Conn, admitted: Sequence[UUID], blocked: Sequence[UUID], lines: dict[UUID, Line]
) -> dict[UUID, int]:
    """Write what was decided; returns the new tickets of the admitted."""
    rows = await connection.fetch(_SQL["admit"], admitted, [lines[id_].text for id_ in admitted]) if admitted else []
    if blocked:
        await connection.execute(_SQL["block"], blocked, [lines[id_].text for id_ in blocked])
    return {row["id"]: row["fence"] for row in rows}


async def _current(connection: Conn, refs: Sequence[JobRef]) -> dict[JobRef, str]:
    """The references whose ticket is current, locked, with their tasks."""
    ids, tickets = zip(*refs, strict=True)
    rows = await connection.fetch(_SQL["lock_candidates"], ids, tickets)
    return {JobRef(row["id"], row["fence"]): row["task"] for row in rows}


async def _lines(connection: Conn, queue: str, tasks: dict[JobRef, str]) -> dict[UUID, Line]:
    if not tasks:
        return {}
    asked = columns([(ref.id, task) for ref, task in tasks.items()])
    rows = await connection.fetch(_SQL["draw_lines"], queue, *asked)
    return {row["id"]: Line(row["line"], queue, row["task"]) for row in rows}


async def return_paused(connection: Conn, queue: str, refs: Sequence[JobRef], delay: timedelta) -> int | None:
    """The jobs of a paused queue wait in Postgres again, for ``delay`` at least; returns how many were current.

    None when the queue isn't paused (any more): then nothing was changed, and the jobs may go on.
    """
    ids, tickets = zip(*refs, strict=True)
    row = await connection.fetchrow(_SQL["return_paused"], ids, tickets, queue, delay)
    return int(row["returned"]) if row and row["is_paused"] else None
