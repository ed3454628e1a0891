"""Submits of unique jobs: which are made, and which job has the place of the others.

Places are locked in the order of their keys, jobs afterwards; so of two submits of the same job that come at one
moment, the second sees what the first has made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from uuid import UUID

from mainspring.domain.job import JobRequest
from mainspring.domain.states import WAITING, State
from mainspring.domain.unique import Then, Unique
from mainspring.store import fleet, jobs, unique
from mainspring.store.jobs import JobEdit
from mainspring.store.pool import Conn
from mainspring.store.unique import Holder


@dataclass(slots=True)
class Resolved:
    """What is to be made, and for each id that isn't the job that has its place, with what was done about it."""

    making: dict[UUID, JobRequest]
    places: dict[UUID, tuple[UUID, Then]] = field(default_factory=dict)


async def resolve(connection: Conn, fresh: Sequence[tuple[JobRequest, UUID]]) -> Resolved:
    """Decide, and change the jobs that are replaced. Raises Conflict when a place is taken at this moment for long."""
    resolved = Resolved({id_: request for request, id_ in fresh})
    asked = [(one.unique, one, id_) for one, id_ in fresh if one.unique is not None]
    if not asked:
        return resolved
    keys = {id_: one.digest(request.task, request.payload) for one, request, id_ in asked}
    first: dict[bytes, UUID] = {}
    for _, _, id_ in asked:
        first.setdefault(keys[id_], id_)
    await connection.execute("SET LOCAL lock_timeout = '1s'")
    free = await unique.reserve(connection, first)
    holders = {key: _new(id_) for key, id_ in first.items() if key in free}
    if taken := first.keys() - free:
        holders |= await unique.lock(connection, taken)
    for one, request, id_ in asked:
        holder = holders[keys[id_]]
        if holder.job_id == id_:
            continue
        if one.counts(holder.state, holder.age) and await _has_place(connection, one, request, holder, resolved):
            del resolved.making[id_]
            resolved.places[id_] = holder.job_id, one.then
        else:
            await unique.take_over(connection, keys[id_], id_)
            holders[keys[id_]] = _new(id_)
    return resolved


def _new(id_: UUID) -> Holder:
    return Holder(id_, timedelta(0), State.SCHEDULED)


async def _has_place(connection: Conn, one: Unique, request: JobRequest, holder: Holder, resolved: Resolved) -> bool:
    """True when the job that is there stays; it was changed if that is asked. False: it can't be changed any more."""
    if one.then is Then.KEEP:
        return True
    if made := resolved.making.get(holder.job_id):
        # It came with this very request.
        changed = made.with_options(payload=request.payload, priority=request.priority)
        if one.then is Then.POSTPONE:
            changed = replace(changed, run_at=request.run_at, delay=request.delay)
        resolved.making[holder.job_id] = changed
        return True
    run_at = None
    if one.then is Then.POSTPONE:
        run_at = request.run_at or await fleet.now(connection) + (request.delay or timedelta(0))
    change = JobEdit(request.priority, run_at, request.payload)
    return bool(await jobs.edit_all(connection, [holder.job_id], change, WAITING, "submit"))
