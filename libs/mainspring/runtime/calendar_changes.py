"""What people do to calendars. The schedules that name one are computed anew in the same transaction."""

from __future__ import annotations

from datetime import datetime

from mainspring.domain.calendar import Calendar
from mainspring.domain.errors import Conflict, InvalidInput, NotFound
from mainspring.domain.firing import SkipReason
from mainspring.domain.schedule import TICK
from mainspring.runtime.schedule_changes import pass_over_until, wait_anew
from mainspring.store import calendars, fleet, schedules
from mainspring.store.calendars import StoredCalendar
from mainspring.store.pool import Conn
from mainspring.store.schedules import StoredSchedule


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
        now = await fleet.now(connection)
        by_new_days = await schedules.lock_with_calendar(connection, one.name)
        for old, new in zip(users, by_new_days, strict=True):
            if new.row["broken"] is None:
                await _follow(connection, old, new, now)
    return await found(connection, one.name)


async def _follow(connection: Conn, old: StoredSchedule, new: StoredSchedule, now: datetime) -> None:
    """Wait for what the new days bring first; for the same nominal time as before where they do."""
    try:
        timetable = new.timetable()
    except InvalidInput as error:
        await schedules.set_aside(connection, new.name, str(error))
        return
    nominal_at = old.next_nominal_at
    # One that has come, and waits for its planned instant, is still waited for when it is a nominal time still.
    if nominal_at is not None and timetable.first_after(min(now, nominal_at - TICK)) == nominal_at:
        return
    # By the days that were: what has come until now was a nominal time then.
    reason = SkipReason.PAUSED if old.row["paused"] else SkipReason.EDITED
    await pass_over_until(connection, old, now, reason)
    await wait_anew(connection, new, now)


async def delete(connection: Conn, name: str) -> None:
    """Delete a calendar. Raises NotFound; Conflict while a schedule names it."""
    if await calendars.lock(connection, name) is None:
        raise NotFound(f"no calendar {name}")
    users = await schedules.names_with_calendar(connection, name)
    if users:
        raise Conflict(f"schedules name the calendar {name}: {', '.join(users)}")
    await calendars.delete(connection, name)
