"""What people do to schedules, for the api and the Python client alike. Each works in the caller's transaction.

A nominal time that has come is never dropped in silence: where a pause, an edit or a deletion keeps it from firing, it
is recorded as skipped for that reason.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from mainspring.domain.definition import ScheduleDefinition
from mainspring.domain.errors import Conflict, InvalidInput, NotFound
from mainspring.domain.firing import SkippedRange, SkipReason, pass_over
from mainspring.domain.job import JobRequest
from mainspring.domain.schedule import OnceTrigger
from mainspring.domain.timetable import Timetable
from mainspring.domain.zones import zone_data_version
from mainspring.runtime import ledger
from mainspring.runtime.ledger import Passed
from mainspring.runtime.replay import once
from mainspring.runtime.submit import Accepted, submit_in
from mainspring.store import backfills, calendars, fleet, schedules
from mainspring.store.pool import Conn
from mainspring.store.schedules import ScheduleFilter, Standing, StoredSchedule, Wait

#: Schedules that one bulk change takes from the table at once.
_PAGE = 500


async def found(connection: Conn, name: str) -> StoredSchedule:
    """The schedule. Raises NotFound."""
    one = await schedules.get(connection, name)
    if one is None:
        raise NotFound(f"no schedule {name}")
    return one


async def save(connection: Conn, definition: ScheduleDefinition, *, is_new: bool = False) -> StoredSchedule:
    """Create or replace a schedule. Raises Conflict when it ``is_new`` and its name is taken, InvalidInput.

    As long as its nominal times stay the same, so does the one that it waits for. With another trigger it waits for
    the first after now.
    """
    await schedules.lock_name(connection, definition.name)
    existing = await schedules.lock(connection, definition.name)
    if is_new and existing is not None:
        raise Conflict(f"there is a schedule {definition.name} already")
    days = await _excluded_days(connection, definition)
    now = await fleet.now(connection)
    timetable = definition.timetable(existing.anchor if existing else now, days)
    await schedules.save(connection, definition, await _standing(connection, existing, definition, timetable, now), now)
    return await found(connection, definition.name)


async def set_paused(connection: Conn, name: str, paused: bool, note: str | None = None) -> StoredSchedule:
    """Pause or resume; resumed, it waits for its first nominal time after now. Raises NotFound."""
    one = await locked(connection, name)
    if one.row["paused"] == paused:
        await schedules.wait_for(connection, [Wait(name, paused, note if paused else None, one.standing())])
    else:
        await _switch(connection, [one], paused, note)
    return await found(connection, name)


async def set_all_paused(
    connection: Conn, which: ScheduleFilter, paused: bool, note: str | None = None
) -> tuple[list[str], dict[str, str]]:
    """Pause or resume every schedule that fits and isn't yet; returns their names, and why others couldn't be."""
    changed: list[str] = []
    refused: dict[str, str] = {}
    last = ""
    while page := await schedules.list_after(connection, last, _PAGE, which._replace(paused=not paused)):
        last = page[-1].name
        sound = []
        for one in await schedules.lock_all(connection, [seen.name for seen in page]):
            if one.row["paused"] == paused:
                continue  # somebody else has just done it
            try:
                one.timetable()
            except InvalidInput as error:
                refused[one.name] = str(error)
            else:
                sound.append(one)
        await _switch(connection, sound, paused, note)
        changed += [one.name for one in sound]
    return changed, refused


async def delete(connection: Conn, name: str) -> None:
    """Delete a schedule; its jobs and the record of its fires stay. Raises NotFound."""
    one = await locked(connection, name)
    await ledger.record_skipped(connection, passed_over(one, await fleet.now(connection), SkipReason.EDITED))
    await backfills.cancel_all(connection, name)
    await schedules.delete(connection, name)


async def trigger(
    connection: Conn, name: str, *, idempotency_key: str | None = None, traceparent: str | None = None
) -> Accepted:
    """Make a job of it now, beside its nominal times. Raises NotFound, InvalidInput.

    A repeat with its key gets the first answer, whatever has become of the schedule since.
    """

    async def work() -> str:
        (made,) = await submit_in(connection, [await _request(connection, name, traceparent)])
        return made.answer

    answer, is_replayed = await once(connection, "trigger", idempotency_key, name, work)
    return Accepted(UUID(json.loads(answer)["id"]), answer, is_replayed)


def anew(one: StoredSchedule, now: datetime) -> Wait:
    """It waits for the first nominal time after now: those before it have been passed over. Raises InvalidInput."""
    standing = _first_after(one.timetable(), one.row["max_runs"], now, one)
    return Wait(one.name, one.row["paused"], one.row["pause_note"], standing)


async def locked(connection: Conn, name: str) -> StoredSchedule:
    """The schedule, locked until the transaction ends. Raises NotFound."""
    one = await schedules.lock(connection, name)
    if one is None:
        raise NotFound(f"no schedule {name}")
    return one


async def _request(connection: Conn, name: str, traceparent: str | None) -> JobRequest:
    return (await locked(connection, name)).definition().request(traceparent=traceparent)


async def _excluded_days(connection: Conn, definition: ScheduleDefinition) -> list[str]:
    if not definition.calendars:
        return []
    known = await calendars.hold(connection, definition.calendars)
    for index, name in enumerate(definition.calendars):
        if name not in known:
            raise InvalidInput(f"calendars.{index}", f"there is no calendar {name}")
    return [day for days in known.values() for day in days]


async def _standing(
    connection: Conn,
    existing: StoredSchedule | None,
    definition: ScheduleDefinition,
    timetable: Timetable,
    now: datetime,
) -> Standing:
    if existing is None:
        return _first_after(timetable, definition.max_runs, now, None)
    if _goes_on(existing, definition):
        nominal_at = existing.next_nominal_at
        # The jitter may be another one.
        return existing.standing()._replace(fires_at=timetable.fires_at(nominal_at))
    is_of_a_pause = existing.row["paused"] or definition.paused
    reason = SkipReason.PAUSED if is_of_a_pause else SkipReason.EDITED
    await ledger.record_skipped(connection, passed_over(existing, now, reason))
    # By another trigger, or in another zone, the same time on the clock is another one.
    return _first_after(timetable, definition.max_runs, now, existing)._replace(last_local=None)


def _goes_on(existing: StoredSchedule, definition: ScheduleDefinition) -> bool:
    """Whether it goes on waiting for what it waits for: the same nominal times, and no pause that begins or ends."""
    if existing.row["broken"] is not None or existing.next_nominal_at is None:
        return False
    try:
        before = existing.definition()
    except InvalidInput:
        return False
    return before.fires_like(definition) and before.paused == definition.paused


async def _switch(connection: Conn, those: Sequence[StoredSchedule], paused: bool, note: str | None) -> None:
    """Pause those that aren't, or resume those that are. Raises InvalidInput."""
    now = await fleet.now(connection)
    passed = [each for one in those for each in passed_over(one, now, SkipReason.PAUSED)]
    await ledger.record_skipped(connection, passed)
    waits = [anew(one, now)._replace(paused=paused, pause_note=note if paused else None) for one in those]
    await schedules.wait_for(connection, waits)


def _first_after(
    timetable: Timetable, max_runs: int | None, now: datetime, existing: StoredSchedule | None
) -> Standing:
    runs, last_local = (existing.row["runs"], existing.row["last_local"]) if existing else (0, None)
    is_over = max_runs is not None and runs >= max_runs
    nominal_at = None if is_over else timetable.first_after(now)
    return Standing(nominal_at, timetable.fires_at(nominal_at), last_local, now, zone_data_version())


def passed_over(one: StoredSchedule, now: datetime, reason: SkipReason) -> list[Passed]:
    """The nominal times that have come by ``now`` and will not fire any more, to be recorded."""
    nominal_at = one.next_nominal_at
    if nominal_at is None or nominal_at > now:
        return []
    try:
        timetable = one.timetable()
        skipped = pass_over(timetable.trigger, timetable.rules, next_nominal_at=nominal_at, now=now, reason=reason)
    except (InvalidInput, ValueError, OverflowError):
        # It can't be evaluated any more: what is known is that it waited for this one.
        return [Passed(one.name, OnceTrigger(nominal_at), SkippedRange(nominal_at, nominal_at, 1, reason))]
    return [Passed(one.name, timetable.trigger, each) for each in skipped]
