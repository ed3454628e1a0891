"""What people read of a schedule: exact for the dialect, and the same for the same numbers."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from itertools import product

import pytest

from mainspring.domain.cron import NAMED, parse
from mainspring.domain.definition import ScheduleDefinition
from mainspring.domain.errors import InvalidInput
from mainspring.domain.reading import join, read_cron, read_date, read_days, read_duration, reading

AT = datetime(2026, 12, 1, 9, tzinfo=UTC)


def schedule(**fields):
    return ScheduleDefinition(name="nightly", task="report.make", **fields)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        # a few times are listed
        ("30 2 * * *", "at 02:30 every day"),
        ("0,30 9 * * *", "at 09:00 and 09:30 every day"),
        ("0,30 9,17 * * *", "at 09:00, 09:30, 17:00 and 17:30 every day"),
        ("0 */12 * * *", "at 00:00 and 12:00 every day"),
        ("5 0,1,3,8,20 * * *", "at 00:05, 01:05, 03:05, 08:05 and 20:05 every day"),
        # once an hour
        ("0 * * * *", "every hour at minute 0"),
        ("7 */2 * * *", "every 2 hours at minute 7"),
        ("0 0-23/6 * * *", "every 6 hours at minute 0"),
        ("0 1-23/2 * * *", "every 2 hours from 01:00 to 23:00 every day"),
        ("0 */5 * * *", "every 5 hours from 00:00 to 20:00 every day"),
        ("30 9-17 * * *", "every hour from 09:30 to 17:30 every day"),
        ("0 8-12,14-18 * * *", "every hour from 08:00 to 12:00 and from 14:00 to 18:00 every day"),
        ("0 8-12,20 * * *", "at 08:00, 09:00, 10:00, 11:00, 12:00 and 20:00 every day"),
        # more often
        ("* * * * *", "every minute"),
        ("*/15 * * * *", "every 15 minutes"),
        ("0,30 * * * *", "every 30 minutes"),
        ("*/7 * * * *", "every 7 minutes from minute 0 to 56 of every hour"),
        ("5-59/15 * * * *", "every 15 minutes from minute 5 to 50 of every hour"),
        ("0-20 * * * *", "every minute from minute 0 to 20 of every hour"),
        ("10,40 * * * *", "at minutes 10 and 40 of every hour"),
        ("0,1,2,30 * * * *", "at minutes 0 to 2 and 30 of every hour"),
        ("10,40 9-17 * * *", "at minutes 10 and 40 of every hour from 09:00 to 17:59 every day"),
        ("*/15 9 * * *", "every 15 minutes from 09:00 to 09:59 every day"),
        ("5-50/15 9 * * *", "every 15 minutes from 09:05 to 09:50 every day"),
        ("0-20 9 * * *", "every minute from 09:00 to 09:20 every day"),
        ("* 9,12-13 * * *", "every minute from 09:00 to 09:59 and from 12:00 to 13:59 every day"),
        ("*/15 */2 * * *", "every 15 minutes of every second hour"),
        ("*/15 1-23/6 * * *", "every 15 minutes of every 6th hour from 01:00 to 19:59 every day"),
        ("*/15 1,4,9,11 * * *", "every 15 minutes of the hours 1, 4, 9 and 11 every day"),
        # days of the week
        ("30 2 * * 1", "at 02:30 on Mondays"),
        ("*/15 9-17 * * MON-FRI", "every 15 minutes from 09:00 to 17:59 on Mondays to Fridays"),
        ("0 0 * * 7,6", "at 00:00 on Saturdays and Sundays"),
        ("0 0 * * 0,2,3,5", "at 00:00 on Tuesdays, Wednesdays, Fridays and Sundays"),
        ("0 9 * 3,6 fri#2", "at 09:00 on the second Friday of the month, in March and June"),
        ("0 9 * * mon#1,mon#3", "at 09:00 on the first Monday and third Monday of the month"),
        ("0 9 * * wed,fri#5", "at 09:00 on Wednesdays and the fifth Friday of the month"),
        # days of the month
        ("0 0 L * *", "at 00:00 on the last day of the month"),
        ("0 0 1,15,L * *", "at 00:00 on the 1st, 15th and last day of the month"),
        ("0 0 2,3,21-23 * *", "at 00:00 on the 2nd, 3rd and 21st to 23rd of the month"),
        ("0 0 */2 * *", "at 00:00 on every second day of the month from the 1st"),
        ("0 0 3-15/3 * *", "at 00:00 on every third day of the month from the 3rd to the 15th"),
        ("0 0 */10,L * *", "at 00:00 on every 10th day of the month from the 1st and the last one"),
        # both: OR where both are restricted, AND where one starts with a star
        ("0 12 13 * 5", "at 12:00 on the 13th of the month, and on Fridays"),
        ("0 12 13,L * fri#2", "at 12:00 on the 13th and last day of the month, and on the second Friday of the month"),
        ("0 0 */2 * 1", "at 00:00 on every second day of the month from the 1st, but only on Mondays"),
        ("0 0 1,2 * */7", "at 00:00 on the 1st and 2nd of the month, but only on Sundays"),
        ("0 12 1-31 * 5", "at 12:00 every day"),
        ("0 12 13 * 0-6", "at 12:00 every day"),
        ("0 12 3,* * 5", "at 12:00 every day"),
        ("0 12 *,3 * 5", "at 12:00 on Fridays"),
        # months
        ("0 0 29 2 *", "at 00:00 on the 29th of February"),
        ("0 0 1 JAN,jul *", "at 00:00 on the 1st of the month, in January and July"),
        ("0 0 * 1-3,6 *", "at 00:00 every day in January to March and June"),
        ("* * * 1 *", "every minute in January"),
        ("0 0 * 12 1", "at 00:00 on Mondays, in December"),
        ("0 0 13 1 5", "at 00:00 on the 13th of the month, and on Fridays, both only in January"),
        ("0 0 */2 1 1", "at 00:00 on every second day of January from the 1st, but only on Mondays"),
        ("0 0 1-31 1 5", "at 00:00 every day in January"),
        # names
        ("@hourly", "every hour at minute 0"),
        ("@midnight", "at 00:00 every day"),
        ("@weekly", "at 00:00 on Sundays"),
        ("@monthly", "at 00:00 on the 1st of the month"),
        ("@annually", "at 00:00 on the 1st of January"),
    ],
)
def test_an_expression_is_read(expression, text):
    assert read_cron(parse(expression)) == text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        *NAMED.items(),
        ("*/15 9-17 * * 1-5", "0-59/15 9-17 * * mon-fri"),
        ("* * * * *", "0-59 0-23 1-31 1-12 0-6"),
        ("0 0 * * 0", "0 0 * * 7"),
        ("0 */6 * * *", "0 0,6,12,18 * * *"),
        ("0 0 */1 * 1", "0 0 * * MON"),
    ],
)
def test_the_same_numbers_read_alike(one, other):
    assert read_cron(parse(one)) == read_cron(parse(other))


MINUTES = "* */2 */7 */15 */30 */59 0 7 0-10 0-58 1-59 5-59/15 5-40/15 0,30 10,40 0,1,2,30 0,20,40 0,20,41"
HOURS = "* */2 */3 */5 */12 */23 0 9 0-22 1-23 9-17 9-12 9-11,14-17 9,11 9,20 1-23/2 1-21/2 1,4,9,11 3-6,9"
DATES = "* */2 1-29/2 1-31 1-30 1-7 1 31 L 1,L */2,L"
MONTHS = "* 1 1-3"
WEEKDAYS = "* 5 1-5 0-6 */2 fri#2 fri#5 1,fri#2 fri#1,fri#2"


def test_times_that_differ_never_read_alike():
    texts = defaultdict(set)
    for minute, hour in product(MINUTES.split(), HOURS.split()):
        parsed = parse(f"{minute} {hour} * * *")
        texts[read_cron(parsed)].add(parsed.times)
    assert len(texts) > 300
    assert {text: times for text, times in texts.items() if len(times) > 1} == {}


def days_of(parsed):
    """The days of two years, one of them a leap year, on which it fires."""
    days = [datetime(2027, 1, 1) + timedelta(days=count) for count in range(365 + 366)]  # noqa: DTZ001  local dates
    return tuple(day for day in days if parsed.has_a_day_between(day, day))


def test_days_that_differ_never_read_alike():
    texts = defaultdict(dict)
    for fields in product(DATES.split(), MONTHS.split(), WEEKDAYS.split()):
        try:
            parsed = parse(f"0 0 {' '.join(fields)}")
        except InvalidInput:  # never comes
            continue
        texts[read_cron(parsed)][replace(parsed, text="")] = parsed
    assert len(texts) > 200
    several = {text: alike.values() for text, alike in texts.items() if len(alike) > 1}
    assert [text for text, alike in several.items() if len({days_of(parsed) for parsed in alike}) > 1] == []


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"cron": "30 2 * * 1", "timezone": "Europe/Berlin"}, "at 02:30 on Mondays, Europe/Berlin"),
        ({"cron": "* * * * *"}, "every minute, UTC"),
        (
            {"cron": "* * * * *", "calendars": ("holidays",)},
            "every minute, UTC, but for the days of the calendar holidays",
        ),
        (
            {"every_seconds": 60, "calendars": ("a", "b", "c"), "timezone": "Asia/Tokyo"},
            "every minute, Asia/Tokyo, but for the days of the calendars a, b and c",
        ),
        ({"every_seconds": 90, "timezone": "Asia/Tokyo"}, "every 90 seconds"),
        ({"every_seconds": 7200}, "every 2 hours"),
        ({"every_seconds": 3600}, "every hour"),
        ({"every_seconds": 86400}, "every 24 hours"),
        ({"every_seconds": 5400}, "every 90 minutes"),
        ({"every_seconds": 1}, "every second"),
        ({"every_seconds": 1.5}, "every 1.5 seconds"),
        ({"every_seconds": 31622399.000001}, "every 31622399.000001 seconds"),
        ({"at": AT}, "once at 2026-12-01T09:00:00Z"),
        ({"at": AT.astimezone(timezone(timedelta(hours=2)))}, "once at 2026-12-01T09:00:00Z"),
        ({"at": AT + timedelta(microseconds=1)}, "once at 2026-12-01T09:00:00.000001Z"),
    ],
)
def test_a_schedule_is_read(fields, text):
    assert reading(schedule(**fields)) == text


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({}, "cron"),
        ({"cron": "* * * * *", "every_seconds": 5}, "cron"),
        ({"cron": "0 0 30 2 *"}, "cron"),
        ({"cron": "* * * * *", "timezone": "Mars/Base"}, "timezone"),
        ({"every_seconds": 0}, "every_seconds"),
    ],
)
def test_what_has_no_trigger_has_no_reading(fields, field):
    with pytest.raises(InvalidInput) as refusal:
        reading(schedule(**fields))
    assert refusal.value.field == field


def test_the_parts_of_a_reading():
    assert read_days(parse("0 0 * 1 *")) == ""
    assert read_days(parse("0 0 13 1 5")) == "on the 13th of the month, and on Fridays"
    dates = " ".join(read_date(day) for day in (1, 2, 3, 4, 11, 12, 13, 21, 22, 23, 30, 31))
    assert dates == "1st 2nd 3rd 4th 11th 12th 13th 21st 22nd 23rd 30th 31st"
    assert read_duration(timedelta(hours=1)) == "1 hour"
    assert [join(["a"]), join(["a", "b"]), join(["a", "b", "c"])] == ["a", "a and b", "a, b and c"]
