"""Triggers: at which instants a schedule fires.

A cron trigger follows Vixie and ISC cron where the clocks of its zone change:

* A fixed-time entry (neither minute nor hour starts with a star) whose time falls into a spring gap fires
  once, at the first instant after the gap; in an autumn overlap it fires on the first pass only.
* Any other entry follows the clock on the wall as it really passes: a gap's minutes don't exist, those of an
  overlap come twice.
* Fires at one instant are one.

The walk goes over stretches of constant offset (`zones.Stretch`), so it holds for gaps of 30 minutes, at
midnight, or of a whole day. The answers depend on nothing but the trigger and the process's zone data: whatever
changes, the next fire is again ``next_after`` of the last one, or of now.

All instants are aware UTC. ``next_after`` is strictly later and ``previous_before`` strictly earlier than its
argument; they are None where time ends (in the years 1 and 9999).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import blake2b
from itertools import islice, takewhile
from typing import Protocol, Self
from zoneinfo import ZoneInfo

from mainspring.domain.cron import CronExpression, parse
from mainspring.domain.errors import InvalidInput
from mainspring.domain.zones import EARLIEST, LATEST, Stretch, load_zone, stretches_before, stretches_from

SHORTEST_INTERVAL = timedelta(seconds=1)
LONGEST_INTERVAL = timedelta(days=366)
TICK = timedelta(microseconds=1)


class Trigger(Protocol):
    """What every trigger answers."""

    def next_after(self, instant: datetime) -> datetime | None:
        """The first fire later than ``instant``, or None when no more come."""

    def previous_before(self, instant: datetime) -> datetime | None:
        """The last fire earlier than ``instant``, or None when there was none."""

    def count_between(self, start: datetime, end: datetime) -> int:
        """How many fires [start, end) holds, without walking over each."""


@dataclass(frozen=True, slots=True)
class CronTrigger:
    """Fires at the local times that a cron expression names in a zone."""

    expression: CronExpression
    zone: ZoneInfo

    @classmethod
    def parse(cls, expression: object, timezone: object = "UTC") -> Self:
        """From text. Raises InvalidInput naming ``cron`` or ``timezone``."""
        return cls(parse(expression), load_zone(timezone))

    def next_after(self, instant: datetime) -> datetime | None:
        return _first_after(self, instant)

    def previous_before(self, instant: datetime) -> datetime | None:
        return _last_before(self, instant)

    def count_between(self, start: datetime, end: datetime) -> int:
        first, last = _within_bounds(start), _within_bounds(end)
        stretches = takewhile(lambda stretch: stretch.start < last, stretches_from(self.zone, first))
        return sum(self._count_in(stretch, first, last) for stretch in stretches)

    def first_in(self, stretch: Stretch, start: datetime) -> datetime | None:
        """The first fire of a stretch at or after ``start``."""
        if start <= stretch.start and self._fires_after_gap(stretch):
            return stretch.start
        local_start = max(stretch.local(start), self._first_local(stretch))
        local = self.expression.first_between(local_start, stretch.local_end)
        return local and stretch.instant(local)

    def last_in(self, stretch: Stretch, end: datetime) -> datetime | None:
        """The last fire of a stretch before ``end``."""
        local_end = min(stretch.local(end), stretch.local_end)
        local = self.expression.last_between(self._first_local(stretch), local_end)
        if local is None and self._fires_after_gap(stretch):
            return stretch.start
        return local and stretch.instant(local)

    def _count_in(self, stretch: Stretch, start: datetime, end: datetime) -> int:
        local_start = max(stretch.local(start), self._first_local(stretch))
        local_end = min(stretch.local(end), stretch.local_end)
        if start > stretch.start or not self._fires_after_gap(stretch):
            return self.expression.count_between(local_start, local_end)
        # What the gap held and a fire at its end are one.
        return 1 + self.expression.count_between(local_start + TICK, local_end)

    def _fires_after_gap(self, stretch: Stretch) -> bool:
        if not self.expression.is_fixed_time or not stretch.follows_gap:
            return False
        return self.expression.first_between(stretch.left_local, stretch.local_start) is not None

    def _first_local(self, stretch: Stretch) -> datetime:
        return stretch.first_new_local if self.expression.is_fixed_time else stretch.local_start


@lru_cache(maxsize=4096)
def _first_after(trigger: CronTrigger, instant: datetime) -> datetime | None:
    """Kept, since schedules of one expression are many, and fire together."""
    start = _within_bounds(instant) + TICK
    fires = (trigger.first_in(stretch, start) for stretch in stretches_from(trigger.zone, start))
    return next(filter(None, fires), None)


@lru_cache(maxsize=4096)
def _last_before(trigger: CronTrigger, instant: datetime) -> datetime | None:
    end = _within_bounds(instant)
    fires = (trigger.last_in(stretch, end) for stretch in stretches_before(trigger.zone, end))
    return next(filter(None, fires), None)


@dataclass(frozen=True, slots=True)
class IntervalTrigger:
    """Fires at ``anchor`` and every ``every`` (1 second to 366 days) before and after it."""

    every: timedelta
    anchor: datetime

    def __post_init__(self) -> None:
        if not SHORTEST_INTERVAL <= self.every <= LONGEST_INTERVAL:
            raise InvalidInput("every_seconds", "must be from 1 second to 366 days (31622400)")
        object.__setattr__(self, "anchor", _utc("anchor", self.anchor))

    def next_after(self, instant: datetime) -> datetime | None:
        return self._fire((instant - self.anchor) // self.every + 1)

    def previous_before(self, instant: datetime) -> datetime | None:
        return self._fire(self._fires_before(instant) - 1)

    def count_between(self, start: datetime, end: datetime) -> int:
        return max(self._fires_before(end) - self._fires_before(start), 0)

    def _fires_before(self, instant: datetime) -> int:
        return -((self.anchor - instant) // self.every)

    def _fire(self, number: int) -> datetime | None:
        try:
            return self.anchor + number * self.every
        except OverflowError:  # beyond the years 1 to 9999
            return None


@dataclass(frozen=True, slots=True)
class OnceTrigger:
    """Fires at one instant."""

    at: datetime

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", _utc("at", self.at))

    def next_after(self, instant: datetime) -> datetime | None:
        return self.at if self.at > instant else None

    def previous_before(self, instant: datetime) -> datetime | None:
        return self.at if self.at < instant else None

    def count_between(self, start: datetime, end: datetime) -> int:
        return int(start <= self.at < end)


def make_trigger(
    *,
    cron: object = None,
    every_seconds: float | None = None,
    at: datetime | None = None,
    timezone: object = "UTC",
    anchor: datetime,
) -> CronTrigger | IntervalTrigger | OnceTrigger:
    """The trigger of a schedule: exactly one of ``cron``, ``every_seconds`` and ``at`` is given.

    ``anchor`` sets the phase of an interval. Raises InvalidInput naming the field.
    """
    load_zone(timezone)  # refused even where it isn't used
    if [cron, every_seconds, at].count(None) != 2:
        raise InvalidInput("cron", "give exactly one of cron, every_seconds and at")
    if at is not None:
        return OnceTrigger(at)
    if every_seconds is None:
        return CronTrigger.parse(cron, timezone)
    return IntervalTrigger(_interval(every_seconds), anchor)


def fire_times(
    trigger: Trigger, start: datetime, end: datetime | None = None, count: int | None = None
) -> Iterator[datetime]:
    """The fires of [start, end) in order, at most ``count``; without bounds, as long as time lasts."""
    return islice(_fires(trigger, start, end), count)


def plan_jitter(schedule: str, nominal_at: datetime, window: timedelta, next_nominal_at: datetime | None) -> timedelta:
    """The delay of one fire, spread over [0, window) and always before the next fire.

    It is a digest of schedule and nominal time: the same whenever and wherever it is asked.
    """
    room = window if next_nominal_at is None else min(window, next_nominal_at - nominal_at)
    key = f"{schedule} {nominal_at.astimezone(UTC).isoformat()}"
    draw = int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "big")
    return timedelta(microseconds=(max(room, timedelta(0)) // TICK * draw) >> 64)


def _fires(trigger: Trigger, start: datetime, end: datetime | None) -> Iterator[datetime]:
    fire = trigger.next_after(max(start, EARLIEST) - TICK)
    while fire is not None and (end is None or fire < end):
        yield fire
        fire = trigger.next_after(fire)


def _within_bounds(instant: datetime) -> datetime:
    return max(EARLIEST, min(instant, LATEST)).astimezone(UTC)


def _utc(field: str, instant: datetime) -> datetime:
    if instant.utcoffset() is None:
        raise InvalidInput(field, "needs a UTC offset, such as 2025-03-08T07:30:00Z")
    try:
        return instant.astimezone(UTC)
    except OverflowError:
        raise InvalidInput(field, "must lie within the years 1 to 9999") from None


def _interval(seconds: float) -> timedelta:
    try:
        return timedelta(seconds=seconds)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput("every_seconds", "must be a number of seconds from 1 to 31622400") from None
