"""The cron dialect: which expressions are accepted, and which minutes of a wall clock they name.

It is Vixie cron's, plus ``L``, ``#`` and the ``@`` names (docs/how-to/cron.md); zones and the changes of their
clocks are the matter of `schedule`. A local time here is a naive datetime: what a clock on the wall shows.

croniter has one part: it turns the fields that have passed the gate here into numbers. It isn't asked what is
valid, since 7.0 takes a random ``R``, wrapped ranges, six fields and dates that never come, and reads ``5-5``
as ``*``. Nor does it walk: over a change of the clock it fits neither of the known rules (twice in an
overlap, but once in a gap), and a step takes it ten times as long as here.
"""

import re
from bisect import bisect_left
from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache

from croniter import croniter

from mainspring.domain.errors import InvalidInput

LONGEST_EXPRESSION = 256
#: The `@` names, exactly as written here.
NAMED = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}

_MINUTE = timedelta(minutes=1)
#: Among the years of one cycle of weekdays is one of each kind: by its first weekday, with and without a 29 February.
_ALL_KINDS_OF_YEARS = datetime(2001, 1, 1), datetime(2028, 12, 31)  # noqa: DTZ001  local dates
_WHITE_SPACE = " \t\n\r\f\v"
_NTH = re.compile(r"(?P<weekday>[0-9]+|[a-z]+)#(?P<nth>[0-9]+)")
_ITEM = re.compile(r"(?:\*|(?P<first>[0-9]+|[a-z]+)(?:-(?P<last>[0-9]+|[a-z]+))?)(?:/(?P<step>[0-9]+))?")


@dataclass(frozen=True, slots=True)
class CronExpression:
    """A valid expression: the numbers of its fields, and how they are read together.

    ``times`` are the minutes of a day (0 to 1439) that minutes and hours make; Sunday is 0. ``nth_weekdays`` are
    pairs: (5, 2) is a month's second Friday.
    ``needs_both_days``: one of the day fields starts with a star, so a day must fit both; else either is
    enough. ``is_fixed_time``: neither minute nor hour starts with a star, so a change of the clock neither
    drops a fire nor repeats it.
    """

    text: str
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    has_last_day: bool
    months: frozenset[int]
    weekdays: frozenset[int]
    nth_weekdays: frozenset[tuple[int, int]]
    needs_both_days: bool
    is_fixed_time: bool
    times: tuple[int, ...] = field(repr=False, compare=False)

    def __hash__(self) -> int:
        return hash(self.text)

    def first_between(self, start: datetime, end: datetime) -> datetime | None:
        """The first local time of [start, end) that the expression names."""
        for day in self._dates(start, end):
            index = self._times_before(day, start)
            if index < len(self.times):
                found = day + self.times[index] * _MINUTE
                return found if found < end else None
        return None

    def last_between(self, start: datetime, end: datetime) -> datetime | None:
        """The last local time of [start, end) that the expression names."""
        for day in self._dates_back(end, start):
            index = self._times_before(day, end)
            if index > 0:
                found = day + self.times[index - 1] * _MINUTE
                return found if found >= start else None
        return None

    def count_between(self, start: datetime, end: datetime) -> int:
        """How many local times of [start, end) the expression names; costs a step for each day."""
        if start >= end:
            return 0
        days = self._dates(start, end)
        return sum(self._times_before(day, end) - self._times_before(day, start) for day in days)

    def has_a_day_between(self, first: datetime, last: datetime) -> bool:
        """Whether a day from ``first`` to ``last`` fits."""
        return next(self._dates(first, last), None) is not None

    def _times_before(self, day: datetime, moment: datetime) -> int:
        return bisect_left(self.times, -((day - moment) // _MINUTE))  # the minutes, rounded up

    def _dates(self, first: datetime, last: datetime) -> Iterator[datetime]:
        """The midnights of the days that fit, from ``first`` to ``last``; ordinals can't overflow in 9999."""
        ordinal = first.toordinal()
        while ordinal <= last.toordinal():
            day = datetime.fromordinal(ordinal)
            if day.month not in self.months:
                ordinal += monthrange(day.year, day.month)[1] - day.day + 1
                continue
            if self._fits(day):
                yield day
            ordinal += 1

    def _dates_back(self, last: datetime, first: datetime) -> Iterator[datetime]:
        ordinal = last.toordinal()
        while ordinal >= first.toordinal():
            day = datetime.fromordinal(ordinal)
            if day.month not in self.months:
                ordinal -= day.day
                continue
            if self._fits(day):
                yield day
            ordinal -= 1

    def _fits(self, day: datetime) -> bool:
        by_date = day.day in self.days or (self.has_last_day and day.day == monthrange(day.year, day.month)[1])
        weekday = day.isoweekday() % 7
        by_weekday = weekday in self.weekdays or (weekday, (day.day + 6) // 7) in self.nth_weekdays
        return (by_date and by_weekday) if self.needs_both_days else (by_date or by_weekday)


def parse(expression: object) -> CronExpression:
    """Read five fields or an `@` name. Raises InvalidInput naming ``cron``, and nothing else."""
    if not isinstance(expression, str):
        raise InvalidInput("cron", f"must be a text, not {type(expression).__name__}")
    if len(expression) > LONGEST_EXPRESSION:
        raise InvalidInput("cron", f"is {len(expression)} characters long; at most {LONGEST_EXPRESSION} are allowed")
    return _parse(expression)


@lru_cache(maxsize=8192)
def _parse(expression: str) -> CronExpression:
    text = " ".join(re.split(f"[{_WHITE_SPACE}]+", expression.strip(_WHITE_SPACE)))
    if text.startswith("@") and text not in NAMED:
        raise InvalidInput("cron", f"{text!r} is none of {', '.join(NAMED)} (written in lower case)")
    fields = NAMED.get(text, text).lower().split(" ") if text else []
    if len(fields) != len(_PLACES):
        names = ", ".join(place.name for place in _PLACES)
        raise InvalidInput("cron", f"has {len(fields)} fields and needs {len(_PLACES)}: {names}")
    *others, weekdays = fields
    nth_weekdays = [item for item in weekdays.split(",") if "#" in item]
    plain = ",".join(item for item in weekdays.split(",") if "#" not in item)
    # croniter's own reading of # has one list for both kinds; it is given the rest.
    numbers = _numbers([*others, plain or "*"])
    if not plain:
        numbers[-1] = []
    parsed = _expression(text, fields, numbers, frozenset(_PLACES[-1].nth(item) for item in nth_weekdays))
    if not parsed.has_a_day_between(*_ALL_KINDS_OF_YEARS):
        _, _, day, month, weekday = fields
        raise InvalidInput("cron", f"never comes: day of month {day} and day of week {weekday} in month {month}")
    return parsed


def _numbers(fields: list[str]) -> list[list[int]]:
    """The sorted numbers of each field; ``L`` stands for no number."""
    gated = (
        ",".join(place.gate(item) for item in text.split(",")) for place, text in zip(_PLACES, fields, strict=True)
    )
    expanded, _ = croniter.expand(" ".join(gated))
    return [
        list(place.values) if "*" in found else sorted(number for number in found if isinstance(number, int))
        for place, found in zip(_PLACES, expanded, strict=True)
    ]


def _expression(
    text: str, fields: list[str], numbers: list[list[int]], nth_weekdays: frozenset[tuple[int, int]]
) -> CronExpression:
    minutes, hours, days, months, weekdays = numbers
    has_star = [written.startswith("*") for written in fields]
    return CronExpression(
        text=text,
        minutes=tuple(minutes),
        hours=tuple(hours),
        days=frozenset(days),
        has_last_day="l" in fields[2].split(","),
        months=frozenset(months),
        weekdays=frozenset(weekdays),
        nth_weekdays=nth_weekdays,
        needs_both_days=has_star[2] or has_star[4],
        is_fixed_time=not (has_star[0] or has_star[1]),
        times=tuple(hour * 60 + minute for hour in hours for minute in minutes),
    )


@dataclass(frozen=True, slots=True)
class _Place:
    """One of the five places: the numbers that may be written, those they mean, the names from ``low`` up."""

    name: str
    low: int
    high: int
    values: range
    names: tuple[str, ...] = ()

    def gate(self, item: str) -> str:
        """The item as croniter reads it rightly. Raises InvalidInput when it isn't of the dialect."""
        if item == "l" and self.name == "day of month":
            return item
        match = _ITEM.fullmatch(item)
        if match is None:
            raise self._refusal(item, "is not a number, a name, a range a-b, or a step */n or a-b/n")
        first, last, step = match["first"], match["last"], match["step"]
        if step is not None and not 1 <= int(step) <= len(self.values):
            raise self._refusal(item, f"a step is 1 to {len(self.values)}")
        if first is None:
            return item
        if last is None and step is not None:
            raise self._refusal(item, f"a step needs a range or a star, such as {first}-{self.values[-1]}/{step}")
        return self._gate_range(item, first, last or first)

    def nth(self, item: str) -> tuple[int, int]:
        """``fri#2`` as numbers. Raises InvalidInput."""
        match = _NTH.fullmatch(item)
        if match is None or not 1 <= int(match["nth"]) <= _MOST_OF_A_WEEKDAY:
            raise self._refusal(item, f"write a weekday and 1 to {_MOST_OF_A_WEEKDAY}, such as fri#2")
        return self._number(match["weekday"], item) % 7, int(match["nth"])

    def _gate_range(self, item: str, first: str, last: str) -> str:
        low, high = self._number(first, item), self._number(last, item)
        if low > high:
            raise self._refusal(item, "runs backwards; write two ranges (in the day of week, 7 is Sunday too)")
        return item if low < high else str(low)  # croniter reads 5-5 as *

    def _number(self, word: str, item: str) -> int:
        if word in self.names:
            return self.low + self.names.index(word)
        if word.isdigit() and self.low <= int(word) <= self.high:
            return int(word)
        names = f" or {self.names[0].upper()} to {self.names[-1].upper()}" if self.names else ""
        raise self._refusal(item, f"{word} is not {self.low} to {self.high}{names}")

    def _refusal(self, item: str, why: str) -> InvalidInput:
        return InvalidInput("cron", f"{self.name} {item!r}: {why}")


#: A month has a weekday five times at most.
_MOST_OF_A_WEEKDAY = 5
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_PLACES = (
    _Place("minute", 0, 59, range(60)),
    _Place("hour", 0, 23, range(24)),
    _Place("day of month", 1, 31, range(1, 32)),
    _Place("month", 1, 12, range(1, 13), _MONTHS),
    _Place("day of week", 0, 7, range(7), _WEEKDAYS),
)
