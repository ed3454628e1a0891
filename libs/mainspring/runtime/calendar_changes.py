"""What people do to calendars. The schedules that name one are computed anew in the same transaction."""

from __future__ import annotations

from mainspring.domain.calendar import Calendar
from mainspring.domain.errors import Conflict, NotFound
from mainspring.domain.firing import SkipReason
from mainspring.runtime.schedule_changes import pass_over_until, wait_anew
from mainspring.store import calendars, fleet, schedules
from mainspring.store.calendars import StoredCalendar
from mainspring.store.pool import Conn


async def found(connection: Conn, name: str) -> StoredCalendar:
    """The calendar. Raises NotFound."""
    one = await calendars.get(connection, name)
    if one is None:
        raise NotFound(f"no calendar {name}")
    return one


async def save(connection: Conn, one: Calendar) -> StoredCalendar:
    """Create or replace a calendar; schedules that name it wait for their first nominal time by its new days."""
    before = await calendars.get(connection, one.name)
    is_other = before is not None and set(before.days) != set(one.days)
    users = await schedules.lock_with_calendar(connection, one.name) if is_other else []
    now = await fleet.now(connection)
    for schedule in users:
        # By the days that were: what has come until now was a nominal time then.
        reason = SkipReason.PAUSED if schedule.row["paused"] else SkipReason.EDITED
        await pass_over_until(connection, schedule, now, reason)
    await calendars.save(connection, one)
    for schedule in await schedules.lock_with_calendar(connection, one.name) if users else []:
        if schedule.row["broken"] is None:
            await wait_anew(connection, schedule, now)
    return await found(connection, one.name)


async def delete(connection: Conn, name: str) -> None:
    """Delete a calendar. Raises NotFound; Conflict while a schedule names it."""
    if not await calendars.lock(connection, name):
        raise NotFound(f"no calendar {name}")
    users = await schedules.names_with_calendar(connection, name)
    if users:
        raise Conflict(f"schedules name the calendar {name}: {', '.join(users)}")
    await calendars.delete(connection, name)
