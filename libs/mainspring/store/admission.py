"""Admitting jobs that are under concurrency limits, under the lock of these limits."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from mainspring.domain.job import JobRef
from mainspring.domain.limits import NO_LINE, Line, Rooms
from mainspring.domain.states import State
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
    found = await _current(connection, refs)
    locked = await limits.lock_concurrency(connection, queue, {row["task"] for row in found.values()})
    if not locked:
        return None
    rooms = Rooms(tuple(locked))
    rooms.count(await limits.in_hand(connection, locked, released_too=False), released_too=False)
    lines = {ref.id: Line(row["line"] or NO_LINE, queue, row["task"]) for ref, row in found.items()}
    begun = {ref.id for ref, row in found.items() if row["has_begun"]}
    lines |= await _draw(
        connection, [(id_, line) for id_, line in lines.items() if not _tells(rooms, id_, line, begun)], begun
    )
    # In the order of the message, which is that of priority.
    current = [ref for ref in refs if ref in found]
    going, admitted, blocked = _judge(current, lines, rooms, {ref.id for ref in current if _is_admitted(found[ref])})
    if blocked:
        await _draw(connection, [(id_, lines[id_]) for id_ in blocked if lines[id_].text == NO_LINE], begun)
        await connection.execute(_SQL["block"], blocked)
    rows = await connection.fetch(_SQL["admit"], admitted) if admitted else []
    fences = {row["id"]: row["fence"] for row in rows}
    tickets = tuple(JobRef(ref.id, fences.get(ref.id, ref.ticket)) for ref in going)
    return Admission(tickets, len(blocked), len(refs) - len(found))


def _is_admitted(row: Any) -> bool:
    return bool(row["state"] == State.ADMITTED)


def _judge(
    refs: Sequence[JobRef], lines: dict[UUID, Line], rooms: Rooms, held: Collection[UUID]
) -> tuple[list[JobRef], list[UUID], list[UUID]]:
    """Those that go on, and of these the ids of those that need to be admitted; the ids of the blocked.

    ``held``: those that have their slots already.
    """
    going: list[JobRef] = []
    admitted: list[UUID] = []
    blocked: list[UUID] = []
    for ref in refs:
        line = lines[ref.id]
        if ref.id in held:
            going.append(ref)
            continue
        if not rooms.room(line):
            blocked.append(ref.id)
            continue
        going.append(ref)
        if rooms.needs(line):
            rooms.take(line, 1)
            admitted.append(ref.id)
    return going, admitted, blocked


async def _current(connection: Conn, refs: Sequence[JobRef]) -> dict[JobRef, Any]:
    """The rows of the references whose ticket is current, locked."""
    ids, tickets = zip(*refs, strict=True)
    rows = await connection.fetch(_SQL["lock_candidates"], ids, tickets)
    return {JobRef(row["id"], row["fence"]): row for row in rows}


def _tells(rooms: Rooms, job_id: UUID, line: Line, begun: Collection[UUID]) -> bool:
    """Whether a line says all that the limits ask now."""
    keeps_slot = job_id in begun and any(limit.ordered for limit, _, _ in rooms.needs(line))
    return rooms.are_told_by(line) and (line.keeps_slot or not keeps_slot)


async def _draw(connection: Conn, asked: Sequence[tuple[UUID, Line]], begun: Collection[UUID]) -> dict[UUID, Line]:
    """Draw the lines of jobs of one queue by the limits that are there now, and keep them."""
    if not asked:
        return {}
    queue = asked[0][1].queue
    jobs = [(id_, line.task, id_ in begun) for id_, line in asked]
    rows = await connection.fetch(_SQL["draw_lines"], queue, *columns(jobs))
    await connection.execute(_SQL["keep_lines"], [row["id"] for row in rows], [row["line"] for row in rows])
    return {row["id"]: Line(row["line"], queue, row["task"]) for row in rows}


async def return_paused(connection: Conn, queue: str, refs: Sequence[JobRef], delay: timedelta) -> int | None:
    """The jobs of a paused queue wait in Postgres again, for ``delay`` at least; returns how many were current.

    None when the queue isn't paused (any more): then nothing was changed, and the jobs may go on.
    """
    ids, tickets = zip(*refs, strict=True)
    row = await connection.fetchrow(_SQL["return_paused"], ids, tickets, queue, delay)
    return int(row["returned"]) if row and row["is_paused"] else None
