"""What becomes of each nominal time of a schedule, written from the policies' text (docs/how-to/schedules.md).

Nominal times come from brute force (`cron_oracle`), verdicts from looking at each of them; no code of
`mainspring.domain` decides anything here. A story is a list of happenings: the scheduler goes down and comes up again,
people save, pause, resume and delete.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cache
from itertools import count, takewhile
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from mainspring.domain.definition import ScheduleDefinition
from mainspring.domain.firing import Misfire

from ..property.cron_oracle import scan, utc

#: Clocks change in New York on 9 March, in Berlin on 30 March, by half an hour on Lord Howe Island on 5 April (UTC).
BEGIN, END = utc(2025, 3, 8), utc(2025, 4, 8)
SECOND = timedelta(seconds=1)
GRACE = 10 * SECOND


class Happening(NamedTuple):
    """Something that isn't a nominal time; ``given`` is a definition, or a calendar's days."""

    at: datetime
    what: str
    name: str = ""
    given: Any = None


class Verdict(NamedTuple):
    """What became of a nominal time, and when that was decided."""

    became: str
    at: datetime


@cache
def cron_times(text: str, zone_name: str) -> list[datetime]:
    return scan(text, zone_name, BEGIN, END)


def nominal_times(one: ScheduleDefinition, days: tuple[str, ...]) -> list[datetime]:
    """Its nominal times of the month, by looking at each minute."""
    if one.cron is not None:
        times = cron_times(one.cron, one.timezone)
    elif one.at is not None:
        times = [one.at]
    else:
        assert one.every_seconds is not None
        assert one.start_at is not None
        start, every = one.start_at, one.every_seconds * SECOND
        times = list(takewhile(lambda at: at < END, (start + number * every for number in count())))
    first, end = one.start_at or BEGIN, one.end_at or END
    closed = [at for at in times if one.calendars and is_closed(at.astimezone(ZoneInfo(one.timezone)), days)]
    return [at for at in times if first <= at < end and at not in closed]


def when(one: ScheduleDefinition) -> tuple[object, ...]:
    """The fields that say when it fires."""
    return one.cron, one.every_seconds, one.at, one.timezone, one.start_at, one.end_at, one.calendars


def is_closed(local: datetime, days: tuple[str, ...]) -> bool:
    return f"{local:%Y-%m-%d}" in days or f"{local:%m-%d}" in days


def judged(one: ScheduleDefinition, late: list[datetime], now: datetime, runs: int) -> dict[datetime, str]:
    """What becomes of the nominal times that have come by now, by the words of the how-to page."""
    on_time = [at for at in late if now - at <= GRACE]
    missed = [at for at in late if now - at > GRACE]
    became = dict.fromkeys(on_time, "fired")
    most, reason = {
        Misfire.SKIP: (0, "misfire"),
        Misfire.FIRE_ONCE: (1, "superseded"),
        Misfire.FIRE_ALL: (one.max_catchup, "max_catchup"),
    }[one.misfire]
    # Where nothing is caught up the window has no say.
    too_old = [at for at in missed if most and now - at > one.catchup_window]
    became |= dict.fromkeys(too_old, "catchup_window")
    missed = [at for at in missed if at not in too_old]
    room = max(most - len(on_time), 0)
    for number, at in enumerate(reversed(missed)):
        became[at] = "fired" if number < room else reason
    fired = sorted(at for at, verdict in became.items() if verdict == "fired")
    last = None if one.max_runs is None else one.max_runs - runs
    return became | dict.fromkeys(fired[last:] if last is not None else [], "max_runs")


class Expectation:
    """One schedule's month as its definition and the policies' text have it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.verdicts: dict[datetime, Verdict] = {}
        self._one: ScheduleDefinition | None = None
        self._days: tuple[str, ...] = ()
        self._is_up, self._is_paused, self._is_over = True, False, False
        self._times: list[datetime] = []
        self._late: list[datetime] = []

    def follow(self, happenings: list[Happening]) -> None:
        before = BEGIN
        for each in [*happenings, Happening(END, "end")]:
            for at in [at for at in self._times if before < at <= each.at]:
                if self._is_over:
                    break
                self._late.append(at)
                if self._is_up and not self._is_paused:
                    self._judge(at)
            if each.name in {"", self.name} or each.what == "calendar":
                self._happen(each)
            before = each.at

    def _happen(self, each: Happening) -> None:
        match each.what:
            case "down" | "up":
                self._is_up = each.what == "up"
                if self._is_up and not self._is_paused:
                    self._judge(each.at)
            case "pause" | "resume":
                self._is_paused = each.what == "pause"
                self._pass_over("paused", each.at)
            case "delete":
                self._pass_over("edited", each.at)
                self._times = []
            case "save":
                self._save(each.at, each.given, self._days)
            case "calendar" if self._one is None or self._one.calendars:
                self._save(each.at, self._one, each.given)

    def _save(self, at: datetime, one: ScheduleDefinition | None, days: tuple[str, ...]) -> None:
        if self._one and one and (when(self._one), self._days) != (when(one), days):
            self._pass_over("paused" if self._is_paused else "edited", at)
        self._one, self._days = one, days
        self._times = nominal_times(one, days) if one else []

    def _pass_over(self, reason: str, now: datetime) -> None:
        self._decide(dict.fromkeys(self._late, reason), now)

    def _judge(self, now: datetime) -> None:
        if self._one is None:
            return
        runs = sum(each.became == "fired" for each in self.verdicts.values())
        self._decide(judged(self._one, self._late, now, runs), now)
        runs = sum(each.became == "fired" for each in self.verdicts.values())
        self._is_over = self._one.max_runs is not None and runs >= self._one.max_runs

    def _decide(self, became: dict[datetime, str], now: datetime) -> None:
        self.verdicts |= {at: Verdict(verdict, now) for at, verdict in became.items()}
        self._late = []
