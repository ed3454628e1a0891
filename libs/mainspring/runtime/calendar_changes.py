"""What people do to calendars. The schedules that name one are computed anew in the same transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from mainspring.domain.calendar import Calendar
from mainspring.domain.errors import Conflict, InvalidInput, NotFound
from mainspring.domain.firing import SkipReason
from mainspring.domain.schedule import TICK
from mainspring.runtime import ledger
from mainspring.runtime.ledger import Passed
from mainspring.runtime.schedule_changes import anew, passed_over
from mainspring.store import calendars, fleet, schedules
from mainspring.store.calendars import StoredCalendar
from mainspring.store.pool import Conn
from mainspring.store.schedules import StoredSchedule, Wait


async def found(connection: Conn, name: str) -> StoredCalendar:
    """The calendar. Raises NotFound."""
    one = await calendars.get(connection, name)
    if one is None:
        raise NotFound(f"no calendar {name}")
    return one


async def save(connection: Conn, one: Calendar) -> StoredCalendar:
    """Create or replace a calendar; schedules that name it wait for their first nominal time by its new days."""
    await calendars.make(connection, one.name)
    before = await calendars.lock(connection, one.name)
    users = await schedules.lock_with_calendar(connection, one.name) if set(before or ()) != set(one.days) else []
    await calendars.save(connection, one)
    if users:
        by_new_days = await schedules.lock_with_calendar(connection, one.name)
        await _follow(connection, list(zip(users, by_new_days, strict=True)))
    return await found(connection, one.name)


async def _follow(connection: Conn, users: Sequence[tuple[StoredSchedule, StoredSchedule]]) -> None:
    """Wait for what the new days bring first; for the same nominal time as before where they do."""
    now = await fleet.now(connection)
    passed: list[Passed] = []
    waits: list[Wait] = []
    for old, new in users:
        if new.row["broken"] is not None:
            continue
        try:
            if not _still_waits(old, new, now):
                # By the days that were: what has come until now was a nominal time then.
                passed += passed_over(old, now, SkipReason.PAUSED if old.row["paused"] else SkipReason.EDITED)
                waits.append(anew(new, now))
        except InvalidInput as error:
            await schedules.set_aside(connection, new.name, str(error))
    await ledger.record_skipped(connection, passed)
    await schedules.wait_for(connection, waits)


def _still_waits(old: StoredSchedule, new: StoredSchedule, now: datetime) -> bool:
    """Whether what it waits for is a nominal time still: one that has come may wait for its planned instant."""
    nominal_at, timetable = old.next_nominal_at, new.timetable()
    return nominal_at is not None and timetable.first_after(min(now, nominal_at - TICK)) == nominal_at


async def delete(connection: Conn, name: str) -> None:
    """Delete a calendar. Raises NotFound; Conflict while a schedule names it."""
    if await calendars.lock(connection, name) is None:
        raise NotFound(f"no calendar {name}")
    users = await schedules.names_with_calendar(connection, name)
    if users:
        raise Conflict(f"schedules name the calendar {name}: {', '.join(users)}")
    await calendars.delete(connection, name)
