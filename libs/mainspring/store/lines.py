"""The release of a queue whose jobs wait in lines: due jobs join theirs, lines are served in turn as limits have room.

A transaction of several statements, under the queue row's lock; what to serve is decided in between
(``domain.turns``), by the same rooms that admission counts with.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from mainspring.domain.job import MOST_REFS, JobRef
from mainspring.domain.limits import Line, Rooms
from mainspring.domain.turns import Turns, WaitingLine, share_out
from mainspring.store import limits
from mainspring.store.pool import Conn
from mainspring.store.release import Bounds, OutboxBatch, Released, delete_outbox
from mainspring.store.sql import columns, load

_SQL = load("lines")
#: Lines of a priority that one pass looks at; the next pass goes on behind them.
MOST_LINES = 200


async def serve(
    connection: Conn,
    queue: str,
    bounds: Bounds,
    turns: Turns,
    *,
    most: int = 1000,
    window: int | None = None,
    refs_in_batch: int = MOST_REFS,
    published: Sequence[int] = (),
) -> Released:
    """One pass, in a transaction of its own: publish after its commit. It also forgets ``published`` batches."""
    locked = await connection.fetchrow(_SQL["lock"], queue, window)
    if locked is None:
        return Released(is_locked_elsewhere=True, has_lines=True)
    if published:
        await delete_outbox(connection, published)
    await _join(connection, queue, bounds, most)
    credit = min(locked["credit"], most)
    heads = await _heads(connection, queue, turns) if credit else []
    if not heads:
        return Released(credit=credit, age=locked["age"], has_lines=locked["has_lines"], has_waiting=not credit)
    rooms = await limits.rooms(connection, await limits.of_queue(connection, queue), heads)
    waiting = await _waiting(connection, queue, heads, rooms, credit)
    weights = json.loads(await connection.fetchval(_SQL["fairness"], queue))
    shares = share_out(waiting, rooms, credit, turns, weights, most_lines=MOST_LINES)
    batches = await _release(connection, queue, waiting, shares, refs_in_batch)
    shut = [line for line in heads if rooms.blockers(line)]
    rate_waits = [wait for line in shut if (wait := rooms.free_in(line)) is not None]
    return Released(
        batches,
        sum(len(batch.refs) for batch in batches),
        credit,
        age=locked["age"],
        has_lines=True,
        has_waiting=True,
        waits_for_room=len(rate_waits) < len(shut),
        waits_for_rate=min(rate_waits) if rate_waits and len(rate_waits) == len(shut) else None,
    )


async def _join(connection: Conn, queue: str, bounds: Bounds, most: int) -> None:
    """Due jobs join their lines, some at a time: all of them, so that none waits behind a line that is long."""
    rows = await connection.fetch(_SQL["join"], queue, most, bounds.of(queue))
    bounds.advance(queue, {row["priority"]: row["reached"] for row in rows})


async def _heads(connection: Conn, queue: str, turns: Turns) -> list[Line]:
    rows = await connection.fetch(_SQL["heads"], queue, turns.after, MOST_LINES)
    return [Line(row["line"], queue, row["task"], row["priority"]) for row in rows]


async def _waiting(connection: Conn, queue: str, heads: Sequence[Line], rooms: Rooms, credit: int) -> list[WaitingLine]:
    """No more jobs are counted than could go."""
    asked = [(line.text, line.priority, min(rooms.room(line), credit)) for line in heads]
    rows = await connection.fetch(_SQL["waiting"], queue, *columns(asked))
    return [WaitingLine(line, row["jobs"]) for line, row in zip(heads, rows, strict=True)]


async def _release(
    connection: Conn, queue: str, waiting: Sequence[WaitingLine], shares: Sequence[int], refs_in_batch: int
) -> tuple[OutboxBatch, ...]:
    served = [(line.text, line.priority, share) for (line, _), share in zip(waiting, shares, strict=True) if share]
    if not served:
        return ()
    rows = await connection.fetch(_SQL["release"], queue, *columns(served), refs_in_batch)
    return tuple(OutboxBatch(row["id"], queue, tuple(map(JobRef, row["ids"], row["tickets"]))) for row in rows)
