"""Reading what stands before a job, by the predicates that releases and admissions use."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from mainspring.domain.limits import Blocker, Kind, Line
from mainspring.domain.states import State
from mainspring.domain.why import MOST_AHEAD, MOST_NAMED, Facts, HeldLimit, Serving
from mainspring.store import limits
from mainspring.store.circuits import all_circuits
from mainspring.store.fleet import WORKER_LIFE
from mainspring.store.pool import Conn
from mainspring.store.sql import load

_SQL = load("why")
_WAITS_FOR_LIMITS = {State.SCHEDULED, State.BLOCKED}


async def facts_of(connection: Conn, job_id: UUID) -> Facts | None:
    """What a job meets; None when no job that has not ended has this id."""
    row = await connection.fetchrow(_SQL["job"], job_id)
    if row is None or row["state"] == State.DEAD:
        return None
    fields = dict(row) | {"requires": tuple(row["requires"])}
    priority, line = fields.pop("priority"), Line(fields.pop("line"), row["queue"], row["task"])
    state = State(fields.pop("state"))
    waits = state in _WAITS_FOR_LIMITS
    ahead = 0
    if waits and row["due_at"] <= row["now"]:
        ahead = await connection.fetchval(_SQL["ahead"], row["queue"], priority, row["due_at"], job_id, MOST_AHEAD)
    serving = await connection.fetchrow(_SQL["serving"], row["queue"], row["task"], WORKER_LIFE)
    return Facts(
        **fields,
        state=state,
        limits=await _held(connection, line) if waits else (),
        ahead=ahead,
        per_second=await connection.fetchval(_SQL["flow"], row["queue"]),
        serving=Serving(*serving) if serving else Serving(),
    )


async def _held(connection: Conn, line: Line) -> tuple[HeldLimit, ...]:
    """The limits that have no room for a job of the line, as the release counts it."""
    rooms = await limits.rooms(connection, await limits.of_queue(connection, line.queue), [line])
    return tuple([await _held_limit(connection, one, rooms.free_in_of(one)) for one in rooms.blockers(line)])


async def _held_limit(connection: Conn, blocker: Blocker, free_in: float | None) -> HeldLimit:
    if blocker.limit.kind is Kind.RATE:
        return HeldLimit(blocker, free_in=free_in)
    rows = await connection.fetch(_SQL["holders"], blocker.limit.id, blocker.key, MOST_NAMED)
    held = HeldLimit(blocker, blocker.limit.most - blocker.left, tuple(row["id"] for row in rows))
    if blocker.limit.circuit is None:
        return held
    since, cause = next(
        ((one.circuit.opened_at, one.last_error) for one in await all_circuits(connection, blocker.limit.circuit)),
        (None, None),
    )
    return replace(held, since=since, cause=cause)
