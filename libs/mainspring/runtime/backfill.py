"""Backfill: jobs of past nominal times, made under the schedule's lock, never in the way of its live runs.

Its jobs have the lowest priority, no overlap policy counts them, and at most ``parallel`` of them are live at once:
with one they run one after another, in the order of their nominal times. A nominal time that has a job already gets
no second one; one that was skipped gets its job now.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import islice
from uuid import UUID

from mainspring.domain.errors import InvalidInput, NotFound
from mainspring.domain.firing import SkippedRange, SkipReason, skipped_between
from mainspring.domain.job import LOWEST_PRIORITY, check_instant
from mainspring.domain.schedule import TICK, Trigger, fire_times
from mainspring.runtime.schedule_changes import locked
from mainspring.store import backfills, fires, fleet, jobs, schedules
from mainspring.store.backfills import Backfill
from mainspring.store.fires import FireRow
from mainspring.store.pool import Conn

MOST_NOMINAL_TIMES = 10_000
MOST_PARALLEL = 100


async def start(connection: Conn, name: str, start_at: datetime, end_at: datetime, parallel: int = 1) -> Backfill:
    """Ask for the jobs of the nominal times of [start_at, end_at). Raises NotFound; InvalidInput naming the field."""
    check_instant("start_at", start_at)
    check_instant("end_at", end_at)
    if not 1 <= parallel <= MOST_PARALLEL:
        raise InvalidInput("parallel", f"must be from 1 to {MOST_PARALLEL}")
    one = await locked(connection, name)
    if end_at <= start_at:
        raise InvalidInput("end_at", "must be later than start_at")
    if end_at > await fleet.now(connection):
        raise InvalidInput("end_at", "must not be in the future: a backfill is of the past")
    timetable = one.timetable()
    trigger, rules = timetable.trigger, timetable.rules
    # No nominal time lies outside of the schedule's own bounds.
    start_at = max(start_at, rules.start_at or start_at)
    end_at = min(end_at, rules.end_at or end_at)
    first = trigger.next_after(start_at - TICK)
    count = trigger.count_between(start_at, end_at) if start_at < end_at else 0
    if not count or first is None:
        raise InvalidInput("start_at", "there is no nominal time from then to end_at")
    if count > MOST_NOMINAL_TIMES:
        raise InvalidInput("end_at", f"there are {count} nominal times; at most {MOST_NOMINAL_TIMES} are allowed")
    return await backfills.start(connection, jobs.new_id(), name, (start_at, end_at), parallel, count, first)


async def cancel(connection: Conn, name: str, id_: UUID) -> None:
    """Make no more jobs of it; those that are made stay. Raises NotFound when no such backfill runs."""
    if not await backfills.cancel(connection, id_, name):
        raise NotFound(f"no running backfill {id_} of {name}")


async def go_on(connection: Conn, after: UUID) -> tuple[UUID, int] | None:
    """Make the jobs that the next running backfill by id has room for; its id, and how many; None when none runs."""
    one = await backfills.take(connection, after)
    if one is None:
        return None
    stored = await schedules.lock(connection, one.schedule)
    # After both locks: what another scheduler has just made is seen.
    active = await backfills.active(connection, one.id)
    if stored is None:
        await backfills.go_on(connection, one, None, 0, "cancelled")
        return one.id, 0
    if one.next_nominal_at is None:
        if not active:
            await backfills.go_on(connection, one, None, 0, "finished")
        return one.id, 0
    try:
        trigger = stored.timetable().trigger
    except InvalidInput:
        # The schedule is set aside: it waits for the schedule's edit.
        return one.id, 0
    times = list(islice(fire_times(trigger, one.next_nominal_at, one.end_at), max(one.parallel - active, 0)))
    if not times and active:
        return one.id, 0
    await _uncover(connection, one.schedule, trigger, times)
    ids = {nominal_at: jobs.new_id() for nominal_at in times}
    rows = [FireRow(one.schedule, at, at, 1, id_, None, None) for at, id_ in ids.items()]
    recorded = await fires.record(connection, rows, one.id)
    fresh = [at for at in times if (one.schedule, at) in recorded]
    if fresh:
        new = [stored.job(ids[at], at, None)._replace(priority=LOWEST_PRIORITY) for at in fresh]
        await jobs.insert_rows(connection, new)
        await backfills.mark_jobs(connection, [ids[at] for at in fresh], one.id)
    following = trigger.next_after(times[-1]) if times else None
    is_over = following is None or following >= one.end_at
    await backfills.go_on(connection, one, None if is_over else following, len(fresh), "running")
    return one.id, len(fresh)


async def _uncover(connection: Conn, schedule: str, trigger: Trigger, times: Sequence[datetime]) -> None:
    """Take these nominal times, which follow each other, out of the records of what was skipped; keep the rest."""
    if not times:
        return
    for row in await backfills.skipped_between(connection, schedule, times[0], times[-1]):
        first, last, reason = row["nominal_at"], row["last_nominal_at"], SkipReason(row["skipped"])
        taken = [at for at in times if first <= at <= last]
        if not taken:
            continue
        await backfills.drop_skipped(connection, schedule, first)
        if row["nominal_times"] != trigger.count_between(first, last + TICK):
            # Nominal times of another trigger: what is left of them is known by their number alone.
            left = row["nominal_times"] - len(taken)
            kept = [SkippedRange(first if first not in taken else first + TICK, last, left, reason)] if left > 0 else []
        else:
            kept = [
                *skipped_between(trigger, first, taken[0], reason),
                *skipped_between(trigger, taken[-1] + TICK, last + TICK, reason),
            ]
        await backfills.keep_skipped(
            connection, [fires.skipped_row(schedule, each) for each in kept], row["recorded_at"]
        )
