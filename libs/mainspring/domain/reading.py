"""The plain-language reading of when a schedule fires.

    reading(definition)   # "every 15 minutes from 09:00 to 17:59 on Mondays to Fridays, Europe/Berlin"

It reads the numbers of an expression, not its text: ``0-59/15`` and ``*/15`` read alike, and two expressions that
read alike fire alike. (cron-descriptor reads the text, and joins the two day fields by another rule than ours.)

Some words have an exact meaning: "from 09:00 to 17:59" includes both ends; ", and on" is OR; ", but only on" is AND;
"every 2 hours" without a start counts from midnight. Jitter, bounds and the phase of an interval aren't part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta

from mainspring.domain.cron import CronExpression
from mainspring.domain.definition import ScheduleDefinition
from mainspring.domain.schedule import CronTrigger, IntervalTrigger, make_trigger

#: So many numbers at equal distances are told by their distance; fewer are listed.
_FEWEST_STEPS = 4
_MOST_LISTED_TIMES = 4
_MOST_SPANS = 3
_ANY_ANCHOR = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = (("hour", timedelta(hours=1)), ("minute", timedelta(minutes=1)))
_ORDINALS = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth"}
_SUFFIXES = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}
_WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


def reading(definition: ScheduleDefinition) -> str:
    """When it fires, in words, with its zone and calendars. Raises InvalidInput where it has no valid trigger."""
    trigger = make_trigger(
        cron=definition.cron,
        every_seconds=definition.every_seconds,
        at=definition.at,
        timezone=definition.timezone,
        anchor=_ANY_ANCHOR,
    )
    # The days of a calendar are days of the zone, so there the zone matters to every trigger.
    zone = f", {definition.timezone}" if definition.calendars or isinstance(trigger, CronTrigger) else ""
    if isinstance(trigger, CronTrigger):
        text = read_cron(trigger.expression)
    elif isinstance(trigger, IntervalTrigger):
        text = f"every {_each(read_duration(trigger.every))}"
    else:
        text = f"once at {trigger.at.isoformat().replace('+00:00', 'Z')}"
    return text + zone + _but_for(definition.calendars)


def read_cron(expression: CronExpression) -> str:
    """When it fires, without a zone, such as "at 12:00 on the 13th of the month, and on Fridays"."""
    days = read_days(expression) or ("" if _goes_round_the_clock(expression) else "every day")
    return " ".join(filter(None, (_times(expression), days))) + _in_months(expression)


def read_days(expression: CronExpression) -> str:
    """Its days of month and week, such as "on Mondays"; empty when every day of its months fits."""
    dates, weekdays = _dates(expression), _weekdays(expression)
    if dates and weekdays:
        return f"on {dates}, but only on {weekdays}" if expression.needs_both_days else f"on {dates}, and on {weekdays}"
    # Where either is enough, one that every day fits leaves the other nothing to say.
    return f"on {dates or weekdays}" if expression.needs_both_days and (dates or weekdays) else ""


def read_duration(duration: timedelta) -> str:
    """It in the largest of hours, minutes and seconds that leaves no rest, such as "90 seconds" or "1 hour"."""
    for unit, length in _UNITS:
        if not duration % length:
            return _counted(duration // length, unit)
    return _counted(duration.total_seconds(), "second")


def read_weekday(weekday: int, nth: int) -> str:
    """Such as "second Friday" of (5, 2)."""
    return f"{_ORDINALS[nth]} {_WEEKDAYS[weekday]}"


def read_date(day: int) -> str:
    """Such as "31st"."""
    return f"{day}{_SUFFIXES.get(day, 'th')}"


def join(words: Sequence[str]) -> str:
    """Such as "a, b and c"."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _times(expression: CronExpression) -> str:
    minutes, hours = expression.minutes, expression.hours
    if len(expression.times) <= _MOST_LISTED_TIMES and not _step(minutes) and not _step(hours):
        return _at(expression.times)
    return _once_an_hour(minutes[0], hours) if len(minutes) == 1 else _often_an_hour(minutes, hours)


def _once_an_hour(minute: int, hours: tuple[int, ...]) -> str:
    step = _step(hours)
    if step and _is_circle(hours, 24):
        return f"every {_each(_counted(step, 'hour'))} at minute {minute}"
    spans = [(first, last) for first, last in _spans(hours) if first < last]
    if step:
        spans = [(hours[0], hours[-1])]
    elif len(spans) > _MOST_SPANS or len(spans) < len(_spans(hours)):
        return _at([hour * 60 + minute for hour in hours])
    windows = [f"from {_clock(first, minute)} to {_clock(last, minute)}" for first, last in spans]
    return f"every {_each(_counted(step or 1, 'hour'))} {join(windows)}"


def _often_an_hour(minutes: tuple[int, ...], hours: tuple[int, ...]) -> str:
    step, window = _step(minutes), _window(hours)
    if _is_circle(minutes, 60):
        return " ".join(filter(None, (f"every {_each(_counted(60 // len(minutes), 'minute'))}", window)))
    if step and len(hours) == 1:
        times = f"from {_clock(hours[0], minutes[0])} to {_clock(hours[0], minutes[-1])}"
        return f"every {_each(_counted(step, 'minute'))} {times}"
    if step:
        phrase = f"every {_each(_counted(step, 'minute'))} from minute {minutes[0]} to {minutes[-1]}"
    else:
        phrase = f"at minutes {join(_ranges(minutes, str))}"
    return f"{phrase} {window if window.startswith('of') else f'of every hour {window}'.rstrip()}"


def _window(hours: tuple[int, ...]) -> str:
    """The part of a day that ``hours`` are; empty for all of it."""
    step, spans = _step(hours), _spans(hours)
    if step and _is_circle(hours, 24):
        return "" if step == 1 else f"of every {_nth(step)} hour"
    if step and step > 1:
        return f"of every {_nth(step)} hour from {_clock(hours[0], 0)} to {_clock(hours[-1], 59)}"
    if len(spans) > _MOST_SPANS:
        return f"of the hours {join(_ranges(hours, str))}"
    return join([f"from {_clock(first, 0)} to {_clock(last, 59)}" for first, last in spans])


def _goes_round_the_clock(expression: CronExpression) -> bool:
    return bool(_step(expression.hours)) and _is_circle(expression.hours, 24)


def _dates(expression: CronExpression) -> str:
    """The dates of a month, such as "the 1st and last day of the month"; empty when each fits."""
    days = sorted(expression.days)
    if len(days) == 31:
        return ""
    month = f"of {_only_month(expression) or 'the month'}"
    last = ["last day"] if expression.has_last_day else []
    step = _step(days)
    if step is None or step == 1:
        return f"the {join([*_ranges(days, read_date), *last])} {month}"
    end = "" if days[-1] + step > 31 else f" to the {read_date(days[-1])}"
    text = f"every {_nth(step)} day {month} from the {read_date(days[0])}{end}"
    return f"{text} and the last one" if last else text


def _weekdays(expression: CronExpression) -> str:
    """Such as "Mondays and the second Friday of the month"; empty when each fits."""
    if len(expression.weekdays) == 7:
        return ""
    # A week starts on Monday.
    names = _ranges(sorted((day - 1) % 7 for day in expression.weekdays), lambda day: f"{_WEEKDAYS[(day + 1) % 7]}s")
    nth = [read_weekday(*pair) for pair in sorted(expression.nth_weekdays, key=lambda pair: pair[::-1])]
    return join([*names, *([f"the {join(nth)} of the month"] if nth else [])])


def _in_months(expression: CronExpression) -> str:
    if len(expression.months) == 12 or _only_month(expression):
        return ""
    months = join(_ranges(sorted(expression.months), lambda month: _MONTHS[month - 1]))
    days = read_days(expression)
    if days and _dates(expression) and not expression.needs_both_days:
        return f", both only in {months}"
    return f", in {months}" if days else f" in {months}"


def _only_month(expression: CronExpression) -> str:
    """The month that its dates can name themselves: where no weekday beside them needs it too."""
    is_said_by_date = len(expression.days) < 31 and expression.needs_both_days
    return _MONTHS[min(expression.months) - 1] if is_said_by_date and len(expression.months) == 1 else ""


def _but_for(calendars: Sequence[str]) -> str:
    if not calendars:
        return ""
    return f", but for the days of the calendar{'s' if len(calendars) > 1 else ''} {join(calendars)}"


def _at(times: Iterable[int]) -> str:
    return f"at {join([_clock(*divmod(time, 60)) for time in times])}"


def _clock(hour: int, minute: int) -> str:
    return f"{hour:02}:{minute:02}"


def _counted(count: float, unit: str) -> str:
    return f"{count:.15g} {unit}{'' if count == 1 else 's'}"


def _each(counted: str) -> str:
    return counted.removeprefix("1 ")


def _nth(number: int) -> str:
    return _ORDINALS.get(number) or read_date(number)


def _step(numbers: Sequence[int]) -> int | None:
    """The distance of numbers that lie equally far apart, if there are enough of them to call it one."""
    if len(numbers) < _FEWEST_STEPS:
        return None
    step = numbers[1] - numbers[0]
    return step if list(numbers) == list(range(numbers[0], numbers[-1] + 1, step)) else None


def _is_circle(numbers: Collection[int], size: int) -> bool:
    """Whether they cut the circle of ``size`` into equal parts, from 0 on: their distance never breaks."""
    count = len(numbers)
    return count > 1 and size % count == 0 and list(numbers) == list(range(0, size, size // count))


def _spans(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """The first and last of each run of neighbours."""
    present = set(numbers)
    firsts = [number for number in numbers if number - 1 not in present]
    lasts = [number for number in numbers if number + 1 not in present]
    return list(zip(firsts, lasts, strict=True))


def _ranges(numbers: Sequence[int], name: Callable[[int], str]) -> list[str]:
    """Their names in order; three neighbours and more are "a to b"."""
    names = []
    for first, last in _spans(numbers):
        is_range = last - first > 1
        names += [f"{name(first)} to {name(last)}"] if is_range else [name(one) for one in range(first, last + 1)]
    return names
