"""The forecast of an installation: its schedules, how long their jobs ran, and the slots that it has.

Schedules are read by pages and counted in a thread, so whoever else uses the event loop goes on meanwhile. An answer
is kept for some seconds, and for longer the longer it took: a page that polls costs next to nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

from mainspring.domain.errors import InvalidInput
from mainspring.domain.forecast import Bucket, Load, Peak
from mainspring.domain.planned_fires import Entry, Window
from mainspring.domain.spread import Spread, choose_targets, propose, to_move
from mainspring.runtime import schedule_changes
from mainspring.store import fleet, schedules
from mainspring.store import forecast as durations
from mainspring.store.pool import Conn, Database
from mainspring.store.schedules import ScheduleFilter, StoredSchedule

MOST_HOURS = 168
T = TypeVar("T")
_PAGE = 500
#: A forecast that takes longer says what it has got, and that it is incomplete.
_MOST_SECONDS = 60.0
#: An answer is kept for so many seconds, or for so many times what it took.
_KEPT_SECONDS = 10.0
_KEPT_TIMES = 5
_MOST_KEPT = 4


@dataclass(frozen=True, slots=True)
class Forecast:
    """What the schedules will ask, and the slots there are."""

    load: Load
    slots: int
    buckets: Sequence[Bucket]
    peaks: Sequence[Peak]
    #: Not every schedule, or not each of its fires, is in it.
    is_incomplete: bool


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A spread, and how many schedules beyond it make the same peaks."""

    forecast: Forecast
    spread: Spread
    left_out: int


class Change(NamedTuple):
    """A schedule whose jitter has become another."""

    name: str
    before: timedelta
    schedule: StoredSchedule


class Forecasts:
    """The answers that are kept; one is worked out at a time."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int], tuple[float, Any]] = {}
        self._working = asyncio.Lock()

    async def forecast(self, database: Database, hours: int) -> Forecast:
        """The next ``hours`` (1 to 168). Raises DatabaseUnavailable."""
        async with self._working:
            return await self._forecast(database, hours)

    async def suggestion(self, database: Database, hours: int) -> Suggestion:
        """The spread of the next ``hours``. Raises DatabaseUnavailable."""
        async with self._working:
            forecast = await self._forecast(database, hours)
            return await self._once("suggestion", hours, lambda: suggest(database, forecast))

    def forget(self) -> None:
        """Work out the next answers anew."""
        self._kept = {}

    async def _forecast(self, database: Database, hours: int) -> Forecast:
        return await self._once("forecast", hours, lambda: look_ahead(database, hours))

    async def _once(self, what: str, hours: int, work: Callable[[], Awaitable[T]]) -> T:
        began_at, kept = time.monotonic(), self._kept
        kept_until, answer = kept.get((what, hours), (0.0, None))
        if began_at < kept_until:
            return cast(T, answer)
        answer = await work()
        now = time.monotonic()
        if kept is self._kept:  # else it is of a time before the apply
            fresh = [(key, one) for key, one in kept.items() if now < one[0] and key != (what, hours)]
            self._kept = dict(fresh[1 - _MOST_KEPT :])
            self._kept[what, hours] = (now + max(_KEPT_SECONDS, _KEPT_TIMES * (now - began_at)), answer)
        return answer


async def look_ahead(database: Database, hours: int) -> Forecast:
    """Forecast the next ``hours`` from the current bucket's start. Raises DatabaseUnavailable."""
    give_up_at = time.monotonic() + _MOST_SECONDS
    load = Load(window_from(await database.run(fleet.now), hours))
    slots = await database.run(durations.slots)
    of_tasks = await database.run(durations.mean_seconds_of_tasks)
    page, of_schedules = await database.run(partial(_page_after, after=""))
    while page and not load.is_full and time.monotonic() < give_up_at:
        # Postgres looks for the next page while this one is counted.
        (page, of_schedules), _ = await asyncio.gather(
            database.run(partial(_page_after, after=page[-1].name)),
            asyncio.to_thread(_take, load, page, of_schedules, of_tasks),
        )
    buckets, peaks = await asyncio.to_thread(lambda: (load.buckets(), load.peaks()))
    return Forecast(load, slots, buckets, peaks, is_incomplete=load.is_full or bool(page))


def window_from(now: datetime, hours: int) -> Window:
    """Buckets of a minute for up to a day, of ten minutes beyond."""
    step = timedelta(minutes=1) if hours <= 24 else timedelta(minutes=10)
    start = now - (now - datetime.min.replace(tzinfo=now.tzinfo)) % step
    return Window(start, step, timedelta(hours=hours) // step)


async def suggest(database: Database, forecast: Forecast) -> Suggestion:
    """Propose a spread of the schedules in its peaks. Raises DatabaseUnavailable."""
    targets = await asyncio.to_thread(choose_targets, forecast.load, forecast.slots)
    names, left_out = await asyncio.to_thread(to_move, forecast.load, targets)
    of_tasks = await database.run(durations.mean_seconds_of_tasks)
    of_schedules = await database.run(lambda connection: durations.mean_seconds_of_schedules(connection, names))
    async with database.connection() as connection:
        found = [await schedules.get(connection, name) for name in names]
    # Lazily: they are made in the thread that asks for them.
    entries = _entries([one for one in found if one and not one.row["paused"]], of_schedules, of_tasks)
    return Suggestion(forecast, await asyncio.to_thread(propose, forecast.load, targets, entries), left_out)


async def apply(connection: Conn, jitters: Mapping[str, timedelta]) -> list[Change]:
    """Give schedules another jitter; returns those that had another. Raises NotFound, InvalidInput."""
    changes = []
    for name in sorted(jitters):
        # In the order in which a save takes its locks.
        await schedules.lock_name(connection, name)
        definition = (await schedule_changes.locked(connection, name)).definition()
        if definition.jitter != jitters[name]:
            saved = await schedule_changes.save(connection, replace(definition, jitter=jitters[name]))
            changes.append(Change(name, definition.jitter, saved))
    return changes


async def _page_after(connection: Conn, after: str) -> tuple[Sequence[StoredSchedule], dict[str, float]]:
    """A page by name, and the mean durations of its schedules."""
    page = await schedules.list_after(connection, after, _PAGE, ScheduleFilter(paused=False))
    return page, await durations.mean_seconds_of_schedules(connection, [one.name for one in page])


def _take(
    load: Load, page: Sequence[StoredSchedule], of_schedules: Mapping[str, float], of_tasks: Mapping[str, float]
) -> None:
    for entry in _entries(page, of_schedules, of_tasks):
        load.take(entry)


def _entries(
    page: Sequence[StoredSchedule], of_schedules: Mapping[str, float], of_tasks: Mapping[str, float]
) -> Iterator[Entry]:
    """Those that will fire."""
    for one in page:
        is_over = one.next_nominal_at is None or (one.runs_left is not None and one.runs_left < 1)
        if is_over or one.row["broken"] is not None:
            continue
        try:
            timetable = one.timetable()
        except (InvalidInput, ValueError, OverflowError):
            # The scheduler sets it aside when it comes to it.
            continue
        mean = of_schedules.get(one.name, of_tasks.get(one.row["task"]))
        yield Entry(timetable, one.overlap, mean, one.next_nominal_at, one.runs_left)
