"""What may surprise the author of a valid schedule, as warnings; nothing here refuses one.

    lint(definition, now=now, mean_seconds=mean)   # [LintWarning("popular_minute", "everybody fires …")]

An entry that isn't fixed-time and names all 24 hours gets no warning about the clocks: it goes on through both
changes at its own pace. A fixed-time one does, even with ``0-23`` for its hours: in autumn it rests for an hour.

A schedule without a nominal time left gets that one warning, since the others tell of fires to come.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import islice, pairwise, takewhile
from zoneinfo import ZoneInfo

from mainspring.domain.calendar import ExcludedDays, ExcludingTrigger
from mainspring.domain.cron import CronExpression
from mainspring.domain.definition import ScheduleDefinition
from mainspring.domain.firing import Overlap
from mainspring.domain.reading import join, read_date, read_days, read_duration, read_weekday
from mainspring.domain.schedule import CronTrigger, OnceTrigger, Trigger, fire_times
from mainspring.domain.timetable import Timetable
from mainspring.domain.zones import LATEST, Stretch, load_zone, stretches_from

#: How far ahead the changes of the clock are looked up, and fires compared.
HORIZON = timedelta(days=731)
#: How far past the first nominal time one is sought that the calendars leave: a 29 February has its turn.
CALENDAR_HORIZON = timedelta(days=8 * 366)
MOST_FIRES = 200

#: With more dates than these, a missing one is no surprise.
_FEW_DATES = 5
_LENGTHS = {month: 31 - (month in {4, 6, 9, 11}) - 3 * (month == 2) for month in range(1, 13)}
#: The dates on which the first to the fourth of each weekday come.
_WEEKS = {frozenset(range(7 * nth - 6, 7 * nth + 1)): nth for nth in range(1, 5)}
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_WHEN_OVERLAPPING = {
    Overlap.ALLOW: "every fire makes a job all the same, and they run side by side",
    Overlap.SKIP: "a fire makes no job while an earlier one waits or runs",
    Overlap.QUEUE_ONE: "a fire makes no job while an earlier one waits",
    Overlap.QUEUE_ALL: "every fire makes a job all the same, and they pile up",
    Overlap.CANCEL_RUNNING: "a fire cancels the earlier job, so most never come to their end",
}


@dataclass(frozen=True, slots=True)
class LintWarning:
    """``code`` is a short name, fit for a label; ``text`` is a sentence for people."""

    code: str
    text: str


def lint(
    definition: ScheduleDefinition,
    *,
    now: datetime,
    excluded_days: Sequence[str] = (),
    mean_seconds: float | None = None,
) -> list[LintWarning]:
    """The warnings about a schedule, as seen at ``now``; none for most.

    ``excluded_days`` are those of its calendars; ``mean_seconds`` is how long its jobs take, None if nobody knows.
    Raises InvalidInput where the schedule has no valid trigger.
    """
    timetable, zone, excluded = definition.timetable(now), load_zone(definition.timezone), ExcludedDays(excluded_days)
    trigger = timetable.trigger
    start = max(now, definition.start_at or now).astimezone(UTC)
    end = min(start + HORIZON, definition.end_at or LATEST)
    over = _never_again(definition, timetable, now, excluded)
    if over is not None:
        return [LintWarning("never_again", over)]
    texts: dict[str, str | None] = {}
    if isinstance(trigger, CronTrigger):
        texts = {
            **_changes_of_clocks(trigger, (start, end), excluded),
            "popular_minute": None if definition.jitter else _popular_minute(trigger.expression),
            "days_left_out": _days_left_out(trigger.expression),
            "or_of_days": _or_of_days(trigger.expression),
        }
    if mean_seconds is not None:
        fires = fire_times(ExcludingTrigger(trigger, excluded, zone), start, end)
        texts["overlaps_itself"] = _overlaps_itself(definition, fires, mean_seconds)
    return [LintWarning(code, text) for code, text in texts.items() if text is not None]


def _never_again(
    definition: ScheduleDefinition, timetable: Timetable, now: datetime, excluded: ExcludedDays
) -> str | None:
    """Why no nominal time is left after ``now``; None when there is one."""
    trigger, fire = timetable.trigger, timetable.first_after(now)
    if fire is None:
        return f"it doesn't fire any more: {_why_over(definition, trigger, now)}"
    zone = load_zone(definition.timezone)
    if isinstance(trigger, OnceTrigger) and fire.astimezone(zone).date() in excluded:
        return f"it doesn't fire: its only time, {_instant(fire)}, is on a day that its calendars leave out"
    end = min(fire + CALENDAR_HORIZON, definition.end_at or LATEST)
    if any(fire_times(ExcludingTrigger(trigger, excluded, zone), fire, end, 1)):
        return None
    return f"it doesn't fire: its calendars leave out every nominal time from {fire:%Y-%m-%d} to {end:%Y-%m-%d}"


def _why_over(definition: ScheduleDefinition, trigger: Trigger, now: datetime) -> str:
    if isinstance(trigger, OnceTrigger) and trigger.at <= now:
        return f"its only time, {_instant(trigger.at)}, has passed"
    if definition.end_at is not None and definition.end_at <= now:
        return f"its end_at, {_instant(definition.end_at)}, has passed"
    return "no nominal time is left within its start_at and end_at"


@dataclass(frozen=True, slots=True)
class _Struck:
    """The change of the clocks at the start of ``stretch``, and the first and last time named that it strikes."""

    stretch: Stretch
    first: datetime
    last: datetime

    def moment(self, local: datetime) -> str:
        """``local`` as a time, with its date where it isn't that of the times struck."""
        return f"{local:%H:%M}" if local.date() == self.first.date() else f"{local:%Y-%m-%d %H:%M}"


def _changes_of_clocks(
    trigger: CronTrigger, span: tuple[datetime, datetime], excluded: ExcludedDays
) -> dict[str, str | None]:
    expression, zone = trigger.expression, trigger.zone
    if not expression.is_fixed_time and len(expression.hours) == 24:
        return {}
    struck = [one for one in _struck(trigger, span) if _day_of_fire(expression, one) not in excluded]
    gaps = [one for one in struck if one.stretch.follows_gap]
    overlaps = [one for one in struck if not one.stretch.follows_gap]
    return {
        "skipped_time": _skipped_time(gaps, zone, expression.is_fixed_time) if gaps else None,
        "repeated_time": _repeated_time(overlaps, zone, expression.is_fixed_time) if overlaps else None,
    }


def _struck(trigger: CronTrigger, span: tuple[datetime, datetime]) -> Iterator[_Struck]:
    start, end = span
    for stretch in takewhile(lambda stretch: stretch.start < end, stretches_from(trigger.zone, start)):
        if stretch.start < start:
            continue
        low, high = sorted((stretch.left_local, stretch.local_start))  # equal where only the year is new
        first, last = trigger.expression.first_between(low, high), trigger.expression.last_between(low, high)
        if first is not None and last is not None:
            yield _Struck(stretch, first, last)


def _day_of_fire(expression: CronExpression, struck: _Struck) -> date:
    is_late = struck.stretch.follows_gap and expression.is_fixed_time
    return (struck.stretch.local_start if is_late else struck.first).date()


def _skipped_time(gaps: Sequence[_Struck], zone: ZoneInfo, is_fixed_time: bool) -> str:
    after = gaps[0].moment(gaps[0].stretch.local_start)
    does = f"it fires once, at {after}, the first instant after the gap" if is_fixed_time else "nothing fires instead"
    return f"{_tell(gaps, zone, ('does not exist', 'do not exist'), 'forward')}: {does}"


def _repeated_time(overlaps: Sequence[_Struck], zone: ZoneInfo, is_fixed_time: bool) -> str:
    does = "it fires the first time only" if is_fixed_time else "it fires both times"
    return f"{_tell(overlaps, zone, ('comes twice', 'come twice'), 'back')}: {does}"


def _tell(struck: Sequence[_Struck], zone: ZoneInfo, verbs: tuple[str, str], direction: str) -> str:
    """The times and the change of the first, and the dates of all."""
    one = struck[0]
    is_single = one.first == one.last
    times = f"{one.first:%H:%M}" if is_single else f"the times from {one.moment(one.first)} to {one.moment(one.last)}"
    dates = [f"{each.first:%Y-%m-%d}" for each in struck]
    more = [f"{len(dates) - 2} more"] if len(dates) > 2 else []
    change = f"{one.moment(one.stretch.left_local)} to {one.moment(one.stretch.local_start)}"
    return (
        f"{times} {verbs[0] if is_single else verbs[1]} on {join([*dates[:2], *more])},"
        f" when the clocks of {zone.key} go {direction} from {change}"
    )


def _overlaps_itself(definition: ScheduleDefinition, fires: Iterator[datetime], mean_seconds: float) -> str | None:
    compared = islice(fires, min(MOST_FIRES, definition.max_runs or MOST_FIRES))
    closest = min((after - before for before, after in pairwise(compared)), default=None)
    if closest is None or mean_seconds <= closest.total_seconds():
        return None
    mean = read_duration(timedelta(seconds=round(mean_seconds, 1 if mean_seconds < 60 else None)))
    return (
        f"a job takes {mean} on average, and fires are as close as {read_duration(closest)};"
        f" overlap is {definition.overlap}: {_WHEN_OVERLAPPING[definition.overlap]}"
    )


def _popular_minute(expression: CronExpression) -> str | None:
    if expression.minutes != (0,):
        return None
    time = "at midnight" if expression.hours == (0,) else "on the hour"
    return f"everybody fires {time}: give it a jitter, or another minute than 0"


def _days_left_out(expression: CronExpression) -> str | None:
    """The dates that not every month has, and a fifth weekday; unless the last day is named, or every day fits."""
    if not read_days(expression):
        return None
    fifths = [
        f"not every month has a {read_weekday(weekday, nth)}"
        for weekday, nth in sorted(expression.nth_weekdays)
        if nth == 5 and weekday not in expression.weekdays
    ]
    dates: list[str] = []
    if len(expression.days) <= _FEW_DATES and not expression.has_last_day:
        dates = [text for day in sorted(expression.days) if (text := _missing_date(day, expression.months))]
    return "; ".join([*dates, *(["L is the last day of every month"] if dates else []), *fifths]) or None


def _missing_date(day: int, months: frozenset[int]) -> str | None:
    having = sum(day <= _LENGTHS[month] for month in months)
    if having == len(months):
        return None
    leap = "in February of leap years" if day == 29 else ""
    if having == 0:  # beside days that do come, or the parser had refused it
        return f"the {read_date(day)} comes {leap} only" if leap else f"the {read_date(day)} never comes"
    return f"the {read_date(day)} comes in {having} of {len(months)} months{leap and f', and {leap}'}"


def _or_of_days(expression: CronExpression) -> str | None:
    days = read_days(expression)
    if expression.needs_both_days or not days:
        return None
    nth = None if expression.has_last_day or expression.nth_weekdays else _WEEKS.get(expression.days)
    meant = ",".join(f"{_WEEKDAYS[weekday]}#{nth}" for weekday in sorted(expression.weekdays))
    hint = f"; write {meant} in the day of week, and * in the day of month, if a day must be both" if nth else ""
    return f"a day need not fit both day fields: it fires {days}{hint}"


def _instant(instant: datetime) -> str:
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")
