"""The release of a queue whose jobs are told apart by limits or take turns: line by line, as there is room.

A transaction of several statements, under the locks of the queue's row and of its concurrency limits; what to serve is
decided in between (``domain.turns``), by the same rooms that admission counts with. What goes is admitted by that, so
that the dispatcher needn't ask again. A due job that can't go joins its line (``blocked``),
so that the next pass finds those of other lines; one that only waits for its queue's window stays as it is.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from mainspring.domain.job import MOST_REFS, PRIORITIES, JobRef
from mainspring.domain.limits import Line, Rooms
from mainspring.domain.turns import Turns, WaitingLine, share_out
from mainspring.store import limits, strategies
from mainspring.store.pool import Conn
from mainspring.store.release import Bounds, OutboxBatch, Released, delete_outbox
from mainspring.store.sql import columns, load

_SQL = load("lines")
#: Lines of a priority that one pass looks at; the next pass goes on behind them.
MOST_LINES = 200
#: Due jobs that one pass looks at, at least, when any can go.
LEAST_LOOK = 200


class _DueJob(NamedTuple):
    id: UUID
    due_at: datetime
    has_begun: bool


@dataclass(slots=True)
class _Served:
    """A line, how many wait in it (as far as was counted), and who has just become due and belongs to it."""

    line: Line
    waiting: int = 0
    due: list[_DueJob] = field(default_factory=list)
    share: int = 0

    @property
    def share_of_due(self) -> int:
        """Those that wait in it have come before."""
        return max(self.share - self.waiting, 0)

    def as_due(self) -> strategies.DueLine:
        """For the strategies of limits, before it is served."""
        return strategies.DueLine(self.line, self.waiting, tuple(job.id for job in self.due))


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
    credit = min(locked["credit"], most)
    # Where keys take turns all that is due has to be known; elsewhere what could go, and a little more that can't.
    look = most if locked["is_fair"] else max(credit, LEAST_LOOK) if credit else 0
    aging = _Aging(locked["locked_at"], locked["aging"])
    due = await connection.fetch(_SQL["due"], queue, look, bounds.of(queue), False, aging.per_level) if look else []
    newest = await _newest(connection, queue, bounds, due) if locked["is_fair"] and len(due) == look else []
    heads = await connection.fetch(_SQL["heads"], queue, turns.after, MOST_LINES) if locked["has_waiting"] else []
    served = _lines(queue, turns, heads, [*due, *newest], aging)
    # From here on nobody else counts or admits under these limits until the commit.
    await limits.lock_concurrency(connection, queue, {one.line.task for one in served})
    rooms = await limits.rooms(connection, await limits.of_queue(connection, queue), [one.line for one in served])
    if heads:
        await _count_waiting(connection, queue, served, rooms, credit)
    if await strategies.cancel_older(connection, queue, [one.as_due() for one in served], rooms):
        # Committed at once, and looked at anew.
        return Released(credit=credit, has_lines=True, has_waiting=True, has_more=True)
    waiting = [WaitingLine(one.line, one.waiting + len(one.due)) for one in served]
    weights = json.loads(locked["fair_weights"])
    shares = share_out(waiting, rooms, credit, turns, weights, most_lines=MOST_LINES)
    for one, share in zip(served, shares, strict=True):
        one.share = share
    batches = await _release(connection, queue, served, rooms, refs_in_batch)
    await _cancel_new(connection, queue, served, rooms)
    joined, stays = await _join(connection, served, rooms, is_fair=locked["is_fair"])
    _move_on(queue, bounds, due, stays, locked["locked_at"] if len(due) < look else None)
    left = [one.line for one in served if one.share < one.waiting + len(one.due)]
    rate_waits = [wait for line in left if (wait := rooms.free_in(line)) is not None]
    return Released(
        batches,
        sum(len(batch.refs) for batch in batches),
        credit,
        age=locked["age"],
        has_lines=locked["has_lines"] or joined > 0,
        has_waiting=bool(left),
        has_more=len(due) == look and joined > 0,
        waits_for_room=any(rooms.blockers(line) for line in left) and len(rate_waits) < len(left),
        waits_for_rate=min(rate_waits) if rate_waits and len(rate_waits) == len(left) else None,
    )


async def _newest(connection: Conn, queue: str, bounds: Bounds, due: Sequence[Any]) -> list[Any]:
    """The last that have become due: a key that comes while another's backlog is being sorted has its turn at once."""
    known = {row["id"] for row in due}
    rows = await connection.fetch(_SQL["due"], queue, LEAST_LOOK, bounds.of(queue), True, None)
    return [row for row in rows if row["id"] not in known]


class _Aging(NamedTuple):
    now: datetime
    per_level: timedelta | None

    def rank(self, priority: int, due_at: datetime) -> int:
        """The priority that a job is served with, as ``mainspring.release_order`` has it."""
        gained = (self.now - due_at) // self.per_level if self.per_level and due_at < self.now else 0
        return max(priority - gained, 0)


def _lines(queue: str, turns: Turns, heads: Sequence[Any], due: Sequence[Any], aging: _Aging) -> list[_Served]:
    """The lines that somebody waits in or belongs to, in the order of their turns."""
    found: dict[tuple[int, str], _Served] = {}
    for row in (*heads, *due):
        mark = row["priority"], row["line"]
        if mark not in found:
            rank = aging.rank(row["priority"], row["due_at"])
            found[mark] = _Served(Line(row["line"], queue, row["task"], row["priority"], rank))
    for row in due:
        found[row["priority"], row["line"]].due.append(_DueJob(row["id"], row["due_at"], row["has_begun"]))
    return sorted(found.values(), key=lambda one: turns.place_of(one.line))


async def _count_waiting(connection: Conn, queue: str, served: Sequence[_Served], rooms: Rooms, credit: int) -> None:
    """Count those that wait in lines: one more than could go, so that it shows whether some are left."""
    asked = [(one.line.text, one.line.priority, min(rooms.room(one.line), credit) + 1) for one in served]
    rows = await connection.fetch(_SQL["waiting"], queue, *columns(asked))
    for one, row in zip(served, rows, strict=True):
        one.waiting = row["jobs"]


async def _release(
    connection: Conn, queue: str, served: Sequence[_Served], rooms: Rooms, refs_in_batch: int
) -> tuple[OutboxBatch, ...]:
    """Release the shares; admitted at once when each line says all that the limits ask, else at the dispatch."""
    going = [(place, one) for place, one in enumerate(served, 1) if one.share]
    if not going:
        return ()
    shares = [(one.line.text, one.line.priority, min(one.share, one.waiting)) for one in served]
    fresh = [
        (job.id, one.line.text, place, one.waiting + number)
        for place, one in going
        for number, job in enumerate(one.due[: one.share_of_due], 1)
    ]
    due = columns(fresh) or [()] * 4
    ranks = [one.line.rank for one in served]
    is_admitted = all(rooms.are_told_by(one.line) for _, one in going)
    rows = await connection.fetch(_SQL["release"], queue, *columns(shares), refs_in_batch, *due, ranks, is_admitted)
    return tuple(
        OutboxBatch(row["id"], queue, tuple(map(JobRef, row["ids"], row["tickets"])), is_admitted) for row in rows
    )


async def _cancel_new(connection: Conn, queue: str, served: Sequence[_Served], rooms: Rooms) -> None:
    """Those that their limits cancel don't join a line."""
    left = []
    for one in served:
        new = tuple(job.id for job in one.due[one.share_of_due :] if not job.has_begun)
        if new or one.waiting > one.share:
            left.append((strategies.DueLine(one.line, one.waiting, new), one.waiting > one.share))
    gone = await strategies.cancel_new(connection, queue, left, rooms)
    for one in served:
        one.due = [job for job in one.due if job.id not in gone]


async def _join(
    connection: Conn, served: Sequence[_Served], rooms: Rooms, *, is_fair: bool
) -> tuple[int, dict[int, datetime]]:
    """Who can't go joins its line, and all do where lines take turns; returns how many, and since when others stay."""
    joining: list[tuple[UUID, str]] = []
    stays: dict[int, datetime] = {}
    for one in served:
        left = one.due[one.share_of_due :]
        if left and (is_fair or one.waiting or not rooms.room(one.line)):
            joining.extend((job.id, one.line.text) for job in left)
        elif left:
            priority = one.line.priority
            stays[priority] = min(stays.get(priority, left[0].due_at), left[0].due_at)
    if joining:
        await connection.execute(_SQL["join"], *columns(joining))
    return len(joining), stays


def _move_on(
    queue: str, bounds: Bounds, due: Sequence[Any], stays: dict[int, datetime], all_until: datetime | None
) -> None:
    """The next scan begins behind what was taken; ``all_until``: that was all that had become due until then."""
    reached = (
        dict.fromkeys(range(PRIORITIES), all_until) if all_until else {row["priority"]: row["due_at"] for row in due}
    )
    bounds.advance(queue, {level: min(at, stays.get(level, at)) for level, at in reached.items()})
