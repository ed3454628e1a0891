"""Fire times by brute force: look at every UTC minute of a window, ask `zoneinfo` what the clocks show.

Written from the rule's text alone. It shares no code with `mainspring.domain`, and nothing here is clever.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)
LOWS_AND_HIGHS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
NAMES = {
    name: number
    for names, first in (
        ("jan feb mar apr may jun jul aug sep oct nov dec", 1),
        ("sun mon tue wed thu fri sat", 0),
    )
    for number, name in enumerate(names.split(), first)
}


class Expression:
    """The five fields as sets of numbers; 7 and 0 are both Sunday; L and the n-th weekdays are told apart."""

    def __init__(self, text: str) -> None:
        self.fields = text.lower().split()
        self.sets = [expand(part, *span) for part, span in zip(self.fields, LOWS_AND_HIGHS, strict=True)]
        self.nths = [item.split("#") for item in self.fields[4].split(",") if "#" in item]
        self.fixed = self.fields[0][0] != "*" and self.fields[1][0] != "*"

    def names(self, local: datetime) -> bool:
        """Whether the wall clock's minute is one of the expression's."""
        minutes, hours, _, months, _ = self.sets
        return local.minute in minutes and local.hour in hours and local.month in months and self.names_day(local)

    def names_day(self, local: datetime) -> bool:
        """Both day fields when one starts with a star, else either."""
        is_last = (local + DAY).day == 1
        by_date = local.day in self.sets[2] or (is_last and "l" in self.fields[2].split(","))
        weekday = (local.weekday() + 1) % 7
        nth = len(range(local.day, 0, -7))
        by_weekday = weekday in {number % 7 for number in self.sets[4]} or any(
            number_of(word) % 7 == weekday and int(which) == nth for word, which in self.nths
        )
        if self.fields[2][0] == "*" or self.fields[4][0] == "*":
            return by_date and by_weekday
        return by_date or by_weekday


def expand(field: str, low: int, high: int) -> set[int]:
    """The numbers of a field, names and steps included."""
    numbers: set[int] = set()
    for item in field.split(","):
        span, _, step = item.partition("/")
        first, _, last = span.partition("-")
        if first == "l" or "#" in item:
            continue
        start = low if first == "*" else number_of(first)
        end = high if first == "*" else number_of(last or first)
        numbers |= {number for number in range(start, end + 1) if (number - start) % int(step or 1) == 0}
    return numbers


def number_of(word: str) -> int:
    """A number, or a name's number."""
    return NAMES[word] if word in NAMES else int(word)


@dataclass(frozen=True)
class Minute:
    """A UTC minute, what the clocks show, whether they show it again, what they skipped just before it."""

    at: datetime
    local: datetime
    is_second_pass: bool
    skipped: tuple[datetime, ...]


@lru_cache(maxsize=8)
def minutes_of(zone_name: str, start: datetime, end: datetime) -> tuple[Minute, ...]:
    """Every minute of [start, end) as the zone sees it."""
    zone = ZoneInfo(zone_name)
    minutes = []
    before = (start - MINUTE).astimezone(zone).replace(tzinfo=None)
    at = start
    while at < end:
        shown = at.astimezone(zone)
        local = shown.replace(tzinfo=None, fold=0)
        leap = max(int((local - before) / MINUTE) - 1, 0)
        skipped = tuple(before.replace(fold=0) + count * MINUTE for count in range(1, leap + 1))
        minutes.append(Minute(at, local, shown.fold == 1, skipped))
        before, at = local, at + MINUTE
    return tuple(minutes)


def scan(text: str, zone_name: str, start: datetime, end: datetime) -> list[datetime]:
    """The fire times of [start, end), which are whole UTC minutes here."""
    expression = Expression(text)
    return [minute.at for minute in minutes_of(zone_name, start, end) if fires(expression, minute)]


def fires(expression: Expression, minute: Minute) -> bool:
    """The rule itself."""
    if not expression.fixed:
        return expression.names(minute.local)
    first_pass = expression.names(minute.local) and not minute.is_second_pass
    return first_pass or any(expression.names(local) for local in minute.skipped)


@cache
def changes(zone_name: str, start: datetime, end: datetime) -> tuple[datetime, ...]:
    """The quarter hours of [start, end) at which the zone's offset has just changed."""
    zone = ZoneInfo(zone_name)
    found = []
    at = start
    while at < end:
        if offset(zone, at) != offset(zone, at + 5 * DAY):
            quarters = (at + count * 15 * MINUTE for count in range(1, 5 * 24 * 4 + 1))
            found += [each for each in quarters if offset(zone, each) != offset(zone, each - 15 * MINUTE)]
        at += 5 * DAY
    return tuple(found)


def offset(zone: ZoneInfo, at: datetime) -> timedelta | None:
    """The zone's offset at an instant."""
    return at.astimezone(zone).utcoffset()


def utc(year: int, month: int = 1, day: int = 1, hour: int = 0, minute: int = 0) -> datetime:
    """A UTC instant."""
    return datetime(year, month, day, hour, minute, tzinfo=UTC)
