"""Named calendars: the days on which schedules don't fire.

A day is written ``2026-12-24``, or ``12-25`` for the same day of each year. It lasts from midnight to midnight in the
schedule's own zone; its nominal times don't exist: no preview shows them, and the record of fires has no gap there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from mainspring.domain.errors import InvalidInput
from mainspring.domain.job import check_name
from mainspring.domain.schedule import TICK, Trigger
from mainspring.domain.zones import EARLIEST, LATEST, load_zone

MOST_DAYS = 1000
#: How far a trigger is followed over fires that are all left out: calendars may leave out every one, and a 29 February
#: that is left out is eight years from the next but one.
HORIZON = timedelta(days=366 * 12)
_DAY = timedelta(days=1)
_DATE = re.compile(r"(?:(?P<year>[0-9]{4})-)?(?P<month>[0-9]{2})-(?P<day>[0-9]{2})")
_A_LEAP_YEAR = 2000


@dataclass(frozen=True, slots=True)
class Calendar:
    """A name and its days. Raises InvalidInput naming the field."""

    name: str
    days: tuple[str, ...]
    note: str | None = None

    def __post_init__(self) -> None:
        check_name("name", self.name)
        if len(self.days) > MOST_DAYS:
            raise InvalidInput("days", f"has {len(self.days)} days; at most {MOST_DAYS} are allowed")
        for index, text in enumerate(self.days):
            _parts(text, f"days.{index}")
        object.__setattr__(self, "days", tuple(sorted(set(self.days))))


class ExcludedDays:
    """The days of some calendars together."""

    def __init__(self, days: Iterable[str]) -> None:
        parts = {_parts(text, "days") for text in days}
        self._once = frozenset(date(year, month, day) for year, month, day in parts if year is not None)
        self._yearly = frozenset((month, day) for year, month, day in parts if year is None)

    def __contains__(self, day: date) -> bool:
        return day in self._once or (day.month, day.day) in self._yearly

    def __bool__(self) -> bool:
        return bool(self._once or self._yearly)

    def between(self, first: date, last: date) -> Iterator[date]:
        """Those from ``first`` to ``last``, both included; a step for each day named, not for each that passes."""
        yield from (day for day in self._once if first <= day <= last and (day.month, day.day) not in self._yearly)
        for year in range(first.year, last.year + 1):
            for month, day in self._yearly:
                try:
                    one = date(year, month, day)
                except ValueError:  # 29 February
                    continue
                if first <= one <= last:
                    yield one


@dataclass(frozen=True, slots=True)
class ExcludingTrigger:
    """A trigger without the fires of some days of ``zone``."""

    trigger: Trigger
    days: ExcludedDays
    zone: ZoneInfo

    def next_after(self, instant: datetime) -> datetime | None:
        fire = self.trigger.next_after(instant)
        last = self._day(min(instant, LATEST - HORIZON) + HORIZON)
        while fire is not None and (day := self._day(fire)) in self.days:
            while day in self.days and day <= last:
                day += _DAY
            end = self._midnight(day)
            if end is None or day > last:
                return None
            fire = self.trigger.next_after(max(end - TICK, fire))
        return fire

    def previous_before(self, instant: datetime) -> datetime | None:
        fire = self.trigger.previous_before(instant)
        first = self._day(max(instant, EARLIEST + HORIZON) - HORIZON)
        while fire is not None and (day := self._day(fire)) in self.days:
            while day - _DAY in self.days and day > first:
                day -= _DAY
            start = self._midnight(day)
            if start is None or day <= first:
                return None
            fire = self.trigger.previous_before(min(start, fire))
        return fire

    def count_between(self, start: datetime, end: datetime) -> int:
        count = self.trigger.count_between(start, end)
        if start >= end:
            return count
        for day in self.days.between(self._day(start), self._day(end)):
            first, last = self._midnight(day) or start, self._midnight(day + _DAY) or end
            if max(first, start) < min(last, end):
                count -= self.trigger.count_between(max(first, start), min(last, end))
        return count

    def _day(self, instant: datetime) -> date:
        return max(EARLIEST, min(instant, LATEST)).astimezone(self.zone).date()

    def _midnight(self, day: date) -> datetime | None:
        """The first instant of ``day``: after the gap where the clocks leap over midnight; None out of bounds."""
        local = datetime(day.year, day.month, day.day, tzinfo=self.zone)
        if not EARLIEST.date() < day < LATEST.date():
            return None
        instant = local.astimezone(UTC)
        # In a gap this is an instant on the other side of it, whose day is the day before: the gap's end comes next.
        return instant if instant.astimezone(self.zone).date() == day else self._after_gap(instant, day)

    def _after_gap(self, instant: datetime, day: date) -> datetime:
        low, high = instant, instant + timedelta(days=1)
        while high - low > TICK:
            middle = low + (high - low) // 2
            low, high = (low, middle) if middle.astimezone(self.zone).date() >= day else (middle, high)
        return high


def without_days(trigger: Trigger, days: Sequence[str], timezone: str) -> Trigger:
    """``trigger`` itself when no day is excluded."""
    return ExcludingTrigger(trigger, ExcludedDays(days), load_zone(timezone)) if days else trigger


def _parts(text: object, field: str) -> tuple[int | None, int, int]:
    match = _DATE.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise InvalidInput(field, f"{str(text)[:40]!r} is no day such as 2026-12-24, or 12-25 for each year")
    year = int(match["year"]) if match["year"] else None
    try:
        date(_A_LEAP_YEAR if year is None else year, int(match["month"]), int(match["day"]))
    except ValueError as error:
        raise InvalidInput(field, f"{text!r}: {error}") from None
    return year, int(match["month"]), int(match["day"])
