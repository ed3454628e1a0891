"""What the strategies of full limits do with due jobs: cancel the older, or the new.

Both are decided at a release, under its queue's lock, from the rows alone: asked twice, they find nothing more to do. A
row that somebody else works on is left to the next pass.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from mainspring.domain.limits import Limit, Line, Rooms, Strategy
from mainspring.store import jobs
from mainspring.store.pool import Conn
from mainspring.store.sql import columns, load

_SQL = load("strategies")
#: Jobs that wait in lines and are cancelled in one pass.
MOST_AT_ONCE = 1000


class DueLine(NamedTuple):
    """A line, how many wait in it as far as was counted, and the others of it that are due."""

    line: Line
    waiting: int
    due: tuple[UUID, ...]


async def cancel_older(connection: Conn, queue: str, lines: Sequence[DueLine], rooms: Rooms) -> int:
    """For limits that keep the newest: cancel the older jobs of keys that have more due than slots.

    Returns how many.
    """
    contested: dict[Limit, dict[str, list[DueLine]]] = defaultdict(lambda: defaultdict(list))
    for one in lines:
        for limit, key, _ in rooms.needs(one.line):
            if limit.strategy is Strategy.CANCEL_RUNNING:
                contested[limit][key].append(one)
    cancelled = 0
    for limit, keys in contested.items():
        full = {
            key: members
            for key, members in keys.items()
            if sum(one.waiting + len(one.due) for one in members) > rooms.left(limit, key, members[0].line)
        }
        if full:
            cancelled += await _displace(connection, queue, limit, full)
    return cancelled


async def _displace(connection: Conn, queue: str, limit: Limit, full: dict[str, list[DueLine]]) -> int:
    members = [one for some in full.values() for one in some]
    lines = columns([(one.line.text, one.line.priority) for one in members])
    due = columns([(id_, one.line.text) for one in members for id_ in one.due]) or [()] * 2
    rows = await connection.fetch(_SQL["displaced"], limit.id, list(full), queue, *lines, *due)
    return len(await _cancel(connection, [row["id"] for row in rows], limit))


async def cancel_new(connection: Conn, queue: str, lines: Sequence[tuple[DueLine, bool]], rooms: Rooms) -> set[UUID]:
    """For limits that cancel what finds them full: cancel those of ``lines`` that can't go, unless they have begun.

    ``lines`` have been served; with each, whether some wait in it still. Its ``due`` are those that have not begun.
    Returns who was cancelled.
    """
    gone: set[UUID] = set()
    for one, has_waiting in lines:
        full = [found.limit for found in rooms.blockers(one.line) if found.limit.strategy is Strategy.CANCEL_NEW]
        if not full or one.line.keeps_slot:
            continue
        waiting = []
        if has_waiting:
            rows = await connection.fetch(_SQL["waiting_new"], queue, one.line.text, one.line.priority, MOST_AT_ONCE)
            waiting = [row["id"] for row in rows]
        gone.update(await _cancel(connection, [*one.due, *waiting], full[0]))
    return gone


async def _cancel(connection: Conn, job_ids: Sequence[UUID], limit: Limit) -> list[UUID]:
    return await jobs.cancel_all(connection, await jobs.lock_free(connection, job_ids), None, {"limit": limit.name})
