"""Bulk operations: asked for by a person, done by schedulers in small transactions.

Each part is one transaction that changes some jobs and moves the operation on, under its row's lock: a stop at any line
loses nothing and repeats nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from mainspring.domain.bulk import Action, BulkOperation, BulkRequest, next_move
from mainspring.domain.errors import Conflict, NotFound
from mainspring.domain.states import State
from mainspring.store import bulk, dead_letters, fleet, jobs
from mainspring.store.jobs import JobEdit
from mainspring.store.pool import Conn

#: Operations that may run at once.
MOST_RUNNING = 20
#: How soon to look again at a canary that waits for outcomes.
CANARY_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Matched:
    """How many jobs, or dead letters, an operation would be done to."""

    total: int
    by_state: dict[str, int]


async def count(connection: Conn, request: BulkRequest) -> Matched:
    """How many pass the filter now; changes nothing."""
    found = await bulk.count(connection, request, await fleet.now(connection))
    return Matched(sum(found.values()), found)


async def start(connection: Conn, request: BulkRequest, author: str) -> BulkOperation:
    """Ask for an operation on what is there now. Raises Conflict when too many run."""
    if await bulk.running(connection) >= MOST_RUNNING:
        raise Conflict(f"{MOST_RUNNING} bulk operations run already; wait for one, or cancel it")
    now = await fleet.now(connection)
    found = await bulk.count(connection, request, now)
    return await bulk.start(connection, jobs.new_id(), request, author, now, sum(found.values()))


async def cancel(connection: Conn, id_: UUID) -> None:
    """Take no more; what was done stays. Raises NotFound; Conflict when it has ended."""
    if await bulk.finish(connection, id_, "cancelled"):
        return
    one = await bulk.get(connection, id_)
    if one is None:
        raise NotFound(f"no bulk operation {id_}")
    raise Conflict(f"bulk operation {id_} is {one.state} already")


async def go_on(connection: Conn, after: UUID) -> tuple[UUID, int] | None:
    """Do the next part of the next operation by id; its id, and how many were taken; None when none is due."""
    one = await bulk.take(connection, after)
    if one is None:
        return None
    progress = await bulk.judge(connection, one) if one.progress.pending else one.progress
    move = next_move(one.request, progress)
    if move.stops:
        await bulk.go_on(connection, one, progress, one.reached, 0, 0)
        await bulk.finish(connection, one.id, "stopped", move.stops)
        return one.id, 0
    found = await bulk.matching(connection, one, move.take) if move.take else []
    done = await _do(connection, one, [each.id for each in found]) if found else []
    if one.request.canary and done:
        await bulk.watch(connection, one.id, done)
    rate = one.request.per_second
    wait = len(found) / rate if rate and found else 0.0 if found else CANARY_SECONDS
    moved = replace(progress, taken=progress.taken + len(found), step=move.step)
    reached = found[-1] if found else one.reached
    await bulk.go_on(connection, one, moved, reached, len(found) - len(done), wait)
    if move.take and not found and not progress.pending:
        await bulk.finish(connection, one.id, "finished")
    return one.id, len(found)


async def _do(connection: Conn, one: BulkOperation, ids: Sequence[UUID]) -> list[UUID]:
    """Do it to these; returns to which it was done: others have ended, or changed their state, in between."""
    said = {"bulk": str(one.id)}
    match one.request.action:
        case Action.CANCEL:
            return await jobs.cancel_all(connection, ids, one.author, said)
        case Action.RETRY:
            now = await fleet.now(connection)
            return await jobs.edit_all(connection, ids, JobEdit(run_at=now), {State.RETRYING}, one.author, said)
        case Action.EDIT:
            change = JobEdit(priority=one.request.priority)
            return await jobs.edit_all(connection, ids, change, one.request.action.states, one.author, said)
        case Action.REDRIVE:
            await bulk.lock_letters(connection, ids)
            return await jobs.redrive_dead(connection, ids, one.author, said)
        case Action.DISCARD:
            await bulk.lock_letters(connection, ids)
            return await dead_letters.discard_all(connection, ids, one.author, one.request.note, said)
