"""Schedules: what people wrote down, and where each stands. Whoever changes one holds its row's lock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

from mainspring.domain.calendar import without_days
from mainspring.domain.definition import ScheduleDefinition, key_of_fire
from mainspring.domain.firing import Misfire, Overlap
from mainspring.domain.job import check_name
from mainspring.domain.schedule import Trigger, make_trigger
from mainspring.domain.timetable import Timetable, firing_rules
from mainspring.domain.zones import EARLIEST, load_zone
from mainspring.store import jobs
from mainspring.store.jobs import JobRow
from mainspring.store.pool import Conn
from mainspring.store.sql import columns, load

_SQL = load("schedules")


@dataclass(frozen=True, slots=True)
class StoredSchedule:
    """A schedule's row: the definition as it was written, and where it stands."""

    row: Any

    @property
    def name(self) -> str:
        """Its name."""
        name: str = self.row["name"]
        return name

    @property
    def next_nominal_at(self) -> datetime | None:
        """The nominal time that it waits for."""
        instant: datetime | None = self.row["next_nominal_at"]
        return instant

    @property
    def anchor(self) -> datetime:
        """The phase of an interval without a start."""
        instant: datetime = self.row["created_at"]
        return instant

    @property
    def overlap(self) -> Overlap:
        """What a fire does while its earlier jobs wait or run."""
        return Overlap(self.row["overlap"])

    @property
    def excluded_days(self) -> Sequence[str]:
        """The days of its calendars."""
        return self.row["excluded_days"] or ()

    @property
    def runs_left(self) -> int | None:
        """How many jobs it may still make; None without a bound."""
        return None if self.row["max_runs"] is None else self.row["max_runs"] - self.row["runs"]

    def definition(self) -> ScheduleDefinition:
        """The definition. Raises InvalidInput when the row holds what no release would accept now."""
        row = self.row
        return ScheduleDefinition(
            name=row["name"],
            task=row["task"],
            payload=row["payload"],
            cron=row["cron"],
            every_seconds=row["every_seconds"],
            at=row["at"],
            timezone=row["timezone"],
            jitter=timedelta(seconds=row["jitter_seconds"]),
            misfire=Misfire(row["misfire"]),
            max_catchup=row["max_catchup"],
            catchup_window=timedelta(seconds=row["catchup_window_seconds"]),
            overlap=Overlap(row["overlap"]),
            start_at=row["start_at"],
            end_at=row["end_at"],
            max_runs=row["max_runs"],
            paused=row["paused"],
            note=row["note"],
            queue=row["queue"],
            priority=row["priority"],
            tags=tuple(row["tags"]),
            calendars=tuple(row["calendars"]),
            pause_after=row["pause_after"],
        )

    def standing(self) -> Standing:
        """What it waits for."""
        row = self.row
        return Standing(
            row["next_nominal_at"], row["fires_at"], row["last_local"], row["active_since"], row["zone_data"]
        )

    def timetable(self) -> Timetable:
        """When it fires, without its definition, which takes ten times as long.

        Raises InvalidInput, also where a name in the row is none: a queue's becomes one of the broker's objects.
        """
        row = self.row
        _check_names(row["task"], row["queue"])
        every_seconds = row["every_seconds"]
        anchor = None if every_seconds is None else row["start_at"] or self.anchor
        trigger = _trigger(row["cron"], every_seconds, row["at"], row["timezone"], anchor)
        window = timedelta(seconds=row["catchup_window_seconds"])
        rules = firing_rules(Misfire(row["misfire"]), row["max_catchup"], window, row["start_at"], row["end_at"])
        jitter = timedelta(seconds=row["jitter_seconds"])
        return Timetable(row["name"], without_days(trigger, self.excluded_days, row["timezone"]), rules, jitter)

    @property
    def place(self) -> tuple[str, str | None]:
        """The task of its jobs, and the queue that it names."""
        return self.row["task"], self.row["queue"]

    def job(self, id_: UUID, nominal_at: datetime, traceparent: str | None, released_in: str | None = None) -> JobRow:
        """The job that a nominal time makes: the definition's ``request``, which was checked when it was saved.

        ``released_in``: the queue in which it is inserted as released.
        """
        row = self.row
        return JobRow(
            id_,
            row["task"],
            row["payload"],
            released_in or row["queue"],
            row["priority"],
            idempotency_key=key_of_fire(row["name"], nominal_at),
            tags=jobs.TAG_SEPARATOR.join(row["tags"]),
            schedule=row["name"],
            nominal_at=nominal_at,
            traceparent=traceparent,
            is_released=None if released_in is None else True,
        )


class Standing(NamedTuple):
    """What a schedule waits for."""

    next_nominal_at: datetime | None
    fires_at: datetime | None
    #: What its zone's clocks showed at the last nominal time that was decided.
    last_local: datetime | None
    #: Since when its nominal times are those of its present trigger, without a pause.
    active_since: datetime
    #: The release of the zone data that this was computed by.
    zone_data: str | None


class Wait(NamedTuple):
    """Whether a schedule is paused, and what it waits for."""

    schedule: str
    paused: bool
    pause_note: str | None
    standing: Standing


class ScheduleFilter(NamedTuple):
    """Which schedules are meant; None: any."""

    prefix: str | None = None
    task: str | None = None
    queue: str | None = None
    tag: str | None = None
    paused: bool | None = None


EVERY_SCHEDULE = ScheduleFilter()


# Many schedules have the same few triggers, tasks and nominal times.


@lru_cache(maxsize=4096)
def _check_names(task: str, queue: str | None) -> None:
    check_name("task", task)
    if queue is not None:
        check_name("queue", queue)


@lru_cache(maxsize=4096)
def _trigger(
    cron: str | None, every_seconds: float | None, at: datetime | None, timezone: str, anchor: datetime | None
) -> Trigger:
    return make_trigger(cron=cron, every_seconds=every_seconds, at=at, timezone=timezone, anchor=anchor or EARLIEST)


@lru_cache(maxsize=1024)
def local_at(timezone: str, instant: datetime | None) -> datetime | None:
    """What the clocks of a zone show at ``instant``."""
    return instant.astimezone(load_zone(timezone)).replace(tzinfo=None) if instant else None


async def save(connection: Conn, one: ScheduleDefinition, standing: Standing, now: datetime) -> None:
    """Create or replace a schedule, under its name's lock; ``now`` is the anchor of a new one. Raises InvalidInput."""
    await connection.execute(
        _SQL["save"],
        *(one.name, one.task, one.payload, one.cron, one.every_seconds, one.at, one.timezone),
        *(one.jitter.total_seconds(), one.misfire.value, one.max_catchup, one.catchup_window.total_seconds()),
        *(one.overlap.value, one.start_at, one.end_at, one.max_runs, one.paused, one.note, one.queue, one.priority),
        *(list(one.tags), list(one.calendars), one.pause_after),
        *(standing.next_nominal_at, standing.fires_at, standing.zone_data, standing.last_local, standing.active_since),
        now,
    )


async def lock_name(connection: Conn, name: str) -> None:
    """Wait for whoever else creates a schedule of this name; until the transaction ends."""
    await connection.execute(_SQL["lock_name"], name)


async def lock(connection: Conn, name: str) -> StoredSchedule | None:
    """The schedule's row, locked until the transaction ends."""
    if await connection.fetchrow(_SQL["lock"], name) is None:
        return None
    # In a statement of its own: the days of its calendars as they are now, not as they were before the wait.
    return await get(connection, name)


async def lock_with_calendar(connection: Conn, calendar: str) -> list[StoredSchedule]:
    """The schedules that leave out a calendar's days, locked."""
    await connection.execute(_SQL["lock_with_calendar"], calendar)
    return [StoredSchedule(row) for row in await connection.fetch(_SQL["with_calendar"], calendar)]


async def names_with_calendar(connection: Conn, calendar: str) -> list[str]:
    """Some schedules that leave out a calendar's days."""
    return [row["name"] for row in await connection.fetch(_SQL["names_with_calendar"], calendar)]


async def get(connection: Conn, name: str) -> StoredSchedule | None:
    """The schedule, or None."""
    row = await connection.fetchrow(_SQL["get"], name)
    return StoredSchedule(row) if row else None


async def list_after(
    connection: Conn, name: str, most: int, which: ScheduleFilter = EVERY_SCHEDULE
) -> Sequence[StoredSchedule]:
    """A page of schedules by name."""
    return [StoredSchedule(row) for row in await connection.fetch(_SQL["list"], name, most, *which)]


async def delete(connection: Conn, name: str) -> bool:
    """Delete a schedule; its fires and jobs stay. False when there is no such schedule."""
    return bool(await connection.fetchrow(_SQL["delete"], name))


async def lock_all(connection: Conn, names: Sequence[str]) -> list[StoredSchedule]:
    """Those that are still there, locked until the transaction ends, as they are after the wait for the locks."""
    await connection.execute(_SQL["lock_all"], names)
    return [StoredSchedule(row) for row in await connection.fetch(_SQL["get_all"], names)]


async def wait_for(connection: Conn, steps: Sequence[Wait]) -> None:
    """Pause or resume schedules, and set what they wait for, under their rows' locks."""
    if steps:
        rows = [(one.schedule, one.paused, one.pause_note, *one.standing) for one in steps]
        await connection.execute(_SQL["wait_for"], *columns(rows))


async def set_aside(connection: Conn, name: str, why: str) -> None:
    """A schedule that can't be evaluated is no longer looked at until it is edited; the others go on."""
    await connection.execute(_SQL["set_aside"], name, why)
