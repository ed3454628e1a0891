"""What may surprise the author of a schedule."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from time import process_time

import pytest

from mainspring.domain.definition import ScheduleDefinition
from mainspring.domain.errors import InvalidInput
from mainspring.domain.firing import Overlap
from mainspring.domain.lint import LintWarning, lint
from mainspring.domain.schedule import CronTrigger

NOW = datetime(2026, 3, 1, tzinfo=UTC)
DAY = timedelta(days=1)
EACH_DAY = [f"{NOW + count * DAY:%m-%d}" for count in range(365)] + ["02-29"]
NEW_YORK, LORD_HOWE, SANTIAGO = "America/New_York", "Australia/Lord_Howe", "America/Santiago"


def warnings(cron=None, timezone="UTC", *, now=NOW, excluded_days=(), mean_seconds=None, **fields):
    definition = ScheduleDefinition(name="nightly", task="report.make", cron=cron, timezone=timezone, **fields)
    found = lint(definition, now=now, excluded_days=excluded_days, mean_seconds=mean_seconds)
    assert len({one.code for one in found}) == len(found)
    return {one.code: one.text for one in found}


def test_most_schedules_have_no_warning():
    definition = ScheduleDefinition(name="nightly", task="report.make", cron="17 4 * * mon-fri", timezone=NEW_YORK)
    assert lint(definition, now=NOW, mean_seconds=60) == []
    assert lint(ScheduleDefinition(name="nightly", task="t", every_seconds=60), now=NOW, mean_seconds=60) == []


def test_a_warning_is_a_value():
    definition = ScheduleDefinition(name="nightly", task="report.make", cron="0 0 * * *")
    assert lint(definition, now=NOW) == [
        LintWarning("popular_minute", "everybody fires at midnight: give it a jitter, or another minute than 0")
    ]


@pytest.mark.parametrize(
    ("cron", "timezone", "text"),
    [
        (
            "30 2 * * *",
            NEW_YORK,
            "02:30 does not exist on 2026-03-08 and 2027-03-14, when the clocks of America/New_York go forward"
            " from 02:00 to 03:00: it fires once, at 03:00, the first instant after the gap",
        ),
        (
            "*/15 2 * * *",
            NEW_YORK,
            "the times from 02:00 to 02:45 do not exist on 2026-03-08 and 2027-03-14, when the clocks of"
            " America/New_York go forward from 02:00 to 03:00: nothing fires instead",
        ),
        (
            "30 */2 * * *",
            NEW_YORK,
            "02:30 does not exist on 2026-03-08 and 2027-03-14, when the clocks of America/New_York go forward"
            " from 02:00 to 03:00: nothing fires instead",
        ),
        (
            "30 2 8 3 *",
            NEW_YORK,
            "02:30 does not exist on 2026-03-08, when the clocks of America/New_York go forward"
            " from 02:00 to 03:00: it fires once, at 03:00, the first instant after the gap",
        ),
        (
            "15 2 * * *",
            LORD_HOWE,
            "02:15 does not exist on 2026-10-04 and 2027-10-03, when the clocks of Australia/Lord_Howe go forward"
            " from 02:00 to 02:30: it fires once, at 02:30, the first instant after the gap",
        ),
        (
            "5 0 * * *",
            SANTIAGO,
            "00:05 does not exist on 2026-09-06 and 2027-09-05, when the clocks of America/Santiago go forward"
            " from 00:00 to 01:00: it fires once, at 01:00, the first instant after the gap",
        ),
        (  # the gap ends with the day
            "30 23 * * *",
            "America/Nuuk",
            "23:30 does not exist on 2026-03-28 and 2027-03-27, when the clocks of America/Nuuk go forward"
            " from 23:00 to 2026-03-29 00:00: it fires once, at 2026-03-29 00:00, the first instant after the gap",
        ),
    ],
)
def test_a_time_that_is_skipped(cron, timezone, text):
    assert warnings(cron, timezone)["skipped_time"] == text


@pytest.mark.parametrize(
    ("cron", "timezone", "text"),
    [
        (
            "30 1 * * *",
            NEW_YORK,
            "01:30 comes twice on 2026-11-01 and 2027-11-07, when the clocks of America/New_York go back"
            " from 02:00 to 01:00: it fires the first time only",
        ),
        (
            "*/20 1 * * *",
            NEW_YORK,
            "the times from 01:00 to 01:40 come twice on 2026-11-01 and 2027-11-07, when the clocks of"
            " America/New_York go back from 02:00 to 01:00: it fires both times",
        ),
        (
            "45 1 * * *",
            LORD_HOWE,
            "01:45 comes twice on 2026-04-05 and 2027-04-04, when the clocks of Australia/Lord_Howe go back"
            " from 02:00 to 01:30: it fires the first time only",
        ),
        (
            "59 23 * * *",
            SANTIAGO,
            "23:59 comes twice on 2026-04-04 and 2027-04-03, when the clocks of America/Santiago go back"
            " from 2026-04-05 00:00 to 23:00: it fires the first time only",
        ),
    ],
)
def test_a_time_that_is_repeated(cron, timezone, text):
    assert warnings(cron, timezone)["repeated_time"] == text


def test_a_change_that_is_past_is_not_told():
    text = warnings("30 2 * * *", NEW_YORK, now=datetime(2026, 3, 10, tzinfo=UTC))["skipped_time"]
    assert "on 2027-03-14, when" in text


def test_two_dates_are_told_and_the_others_counted():
    text = warnings("30 2 * * *", "Africa/Casablanca", now=datetime(2026, 1, 1, tzinfo=UTC))["repeated_time"]
    assert "on 2026-02-15 and 2027-02-07, when" in text
    text = warnings("30 2 * * *", "Africa/Casablanca", now=datetime(2030, 2, 1, tzinfo=UTC))["skipped_time"]
    assert "on 2030-02-10, 2031-01-26 and 1 more, when" in text


@pytest.mark.parametrize(
    ("cron", "timezone", "fields"),
    [
        ("30 1 * * *", NEW_YORK, {"end_at": datetime(2026, 11, 1, tzinfo=UTC)}),  # over before the change
        ("30 2 * * *", NEW_YORK, {"end_at": datetime(2026, 3, 8, 7, tzinfo=UTC)}),
        ("30 2 * * *", "UTC", {}),
        ("30 3 * * *", NEW_YORK, {}),
        ("59 1 * 3 *", NEW_YORK, {}),  # just before the gap, and not in autumn
        ("30 2 * * 1-6", NEW_YORK, {}),  # clocks change on Sundays
        ("45 2 * * *", LORD_HOWE, {}),
        ("15 1 * * *", LORD_HOWE, {}),
        ("*/30 9-17 * * *", NEW_YORK, {}),
        ("* * * * *", NEW_YORK, {}),
        ("7 * * * *", NEW_YORK, {}),
        ("*/7 0-23 * * *", NEW_YORK, {}),
        ("30 2 * * *", NEW_YORK, {"excluded_days": ["2026-03-08", "03-14"]}),
        ("30 23 * * *", "America/Nuuk", {"excluded_days": ["03-29", "03-28", "10-24", "10-30"]}),
    ],
)
def test_no_warning_where_the_clocks_do_nothing_to_it(cron, timezone, fields):
    assert not warnings(cron, timezone, **fields).keys() & {"skipped_time", "repeated_time"}


def test_an_entry_that_names_all_hours_is_warned_when_it_rests_in_autumn():
    assert warnings("15,45 0-23 * * *", NEW_YORK).keys() == {"skipped_time", "repeated_time"}


def test_after_a_gap_the_day_of_the_fire_is_what_calendars_leave_out():
    spared = warnings("30 23 28 3 *", "America/Nuuk", excluded_days=["2026-03-28"])
    assert "2026-03-28" in spared["skipped_time"]
    assert "skipped_time" not in warnings("30 23 28 3 *", "America/Nuuk", excluded_days=["2026-03-29"])


@pytest.mark.parametrize(
    ("cron", "timezone", "date", "code", "fires"),
    [
        ("30 2 * * *", NEW_YORK, "2026-03-08", "skipped_time", 1),
        ("*/15 2 * * *", NEW_YORK, "2026-03-08", "skipped_time", 0),
        ("30 1 * * *", NEW_YORK, "2026-11-01", "repeated_time", 1),
        ("*/20 1 * * *", NEW_YORK, "2026-11-01", "repeated_time", 6),
        ("*/10 2 * * *", LORD_HOWE, "2026-10-04", "skipped_time", 3),
        ("*/10 1 * * *", LORD_HOWE, "2026-04-05", "repeated_time", 9),
    ],
)
def test_the_trigger_does_what_the_warning_says(cron, timezone, date, code, fires):
    assert date in warnings(cron, timezone)[code]
    trigger = CronTrigger.parse(cron, timezone)
    midnight = datetime.fromisoformat(date).replace(tzinfo=trigger.zone)
    assert trigger.count_between(midnight.astimezone(UTC), (midnight + DAY).astimezone(UTC)) == fires


@pytest.mark.parametrize("overlap", Overlap)
def test_jobs_that_take_longer_than_the_time_between_fires(overlap):
    text = warnings("*/15 * * * *", mean_seconds=1200, overlap=overlap)["overlaps_itself"]
    start = f"a job takes 20 minutes on average, and fires are as close as 15 minutes; overlap is {overlap.value}: "
    assert text.startswith(start)
    does = {
        Overlap.ALLOW: "side by side",
        Overlap.SKIP: "no job while an earlier one waits or runs",
        Overlap.QUEUE_ONE: "no job while an earlier one waits",
        Overlap.QUEUE_ALL: "pile up",
        Overlap.CANCEL_RUNNING: "cancels the earlier job",
    }
    assert does[overlap] in text.removeprefix(start)


@pytest.mark.parametrize(
    ("fields", "is_warned"),
    [
        ({"cron": "*/15 * * * *", "mean_seconds": 900}, False),
        ({"cron": "*/15 * * * *", "mean_seconds": 900.5}, True),
        ({"cron": "*/15 * * * *"}, False),
        ({"cron": "*/7 * * * *", "mean_seconds": 300}, True),  # from minute 56 to 0
        ({"cron": "30 2 * * *", "timezone": NEW_YORK, "mean_seconds": 85_000}, True),  # 23.5 h, over the gap
        ({"cron": "30 2 * * *", "mean_seconds": 85_000}, False),
        ({"cron": "0 0 1,2 1 *", "mean_seconds": 90_000}, True),
        ({"cron": "0 0 1,2 1 *", "mean_seconds": 90_000, "excluded_days": ["01-02"]}, False),
        ({"cron": "0 0 1,2 1 *", "mean_seconds": 90_000, "max_runs": 1}, False),
        ({"cron": "0 0 1,2 1 *", "mean_seconds": 90_000, "end_at": datetime(2027, 1, 2, tzinfo=UTC)}, False),
        ({"every_seconds": 5, "mean_seconds": 5.1}, True),
        ({"every_seconds": 5, "mean_seconds": 5}, False),
        ({"at": NOW + DAY, "mean_seconds": 90_000}, False),
    ],
)
def test_the_closest_fires_are_what_counts(fields, is_warned):
    assert ("overlaps_itself" in warnings(**fields)) is is_warned


@pytest.mark.parametrize(
    ("cron", "jitter", "word"),
    [
        ("0 0 * * *", 0, "at midnight"),
        ("@monthly", 0, "at midnight"),
        ("0 9 * * 1", 0, "on the hour"),
        ("@hourly", 0, "on the hour"),
        ("0 0,12 * * *", 0, "on the hour"),
        ("0 0 * * *", 60, None),
        ("1 0 * * *", 0, None),
        ("*/15 * * * *", 0, None),
    ],
)
def test_the_minute_of_everybody(cron, jitter, word):
    text = warnings(cron, jitter=timedelta(seconds=jitter)).get("popular_minute")
    assert text == (word and f"everybody fires {word}: give it a jitter, or another minute than 0")


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"at": NOW}, "it doesn't fire any more: its only time, 2026-03-01T00:00:00Z, has passed"),
        (
            {"cron": "5 1 * * *", "end_at": NOW},
            "it doesn't fire any more: its end_at, 2026-03-01T00:00:00Z, has passed",
        ),
        (
            {"cron": "5 1 1 * *", "start_at": NOW + DAY, "end_at": NOW + 2 * DAY},
            "it doesn't fire any more: no nominal time is left within its start_at and end_at",
        ),
        (
            {"at": NOW + DAY, "start_at": NOW + 2 * DAY},
            "it doesn't fire any more: no nominal time is left within its start_at and end_at",
        ),
        (
            {"at": NOW + DAY, "excluded_days": ["03-02"]},
            "it doesn't fire: its only time, 2026-03-02T00:00:00Z, is on a day that its calendars leave out",
        ),
        (
            {"cron": "0 0 25 12 *", "excluded_days": ["12-25"]},
            "it doesn't fire: its calendars leave out every nominal time from 2026-12-25 to 2034-12-31",
        ),
        (
            {"cron": "* * * * *", "excluded_days": ["2026-03-01", "2026-03-02"], "end_at": NOW + 2 * DAY},
            "it doesn't fire: its calendars leave out every nominal time from 2026-03-01 to 2026-03-03",
        ),
        (
            {"every_seconds": 7, "excluded_days": EACH_DAY},
            "it doesn't fire: its calendars leave out every nominal time from 2026-03-01 to 2034-03-07",
        ),
    ],
)
def test_a_schedule_that_is_over_gets_that_warning_alone(fields, text):
    assert warnings(**fields, mean_seconds=10**6) == {"never_again": text}


@pytest.mark.parametrize(
    ("fields", "days"),
    [
        ({"at": NOW + DAY}, []),
        ({"cron": "5 1 29 2 */7"}, []),  # the next 29 February on a Sunday is in 2032
        ({"cron": "0 0 25 12 *"}, ["12-24"]),
        ({"cron": "0 0 29 2 *"}, ["2028-02-29"]),
        ({"cron": "0 0 * * *"}, EACH_DAY[:-1]),
        ({"cron": "0 0 * * *", "timezone": SANTIAGO}, [day for day in EACH_DAY if day != "09-06"]),
        ({"cron": "* * * * *", "end_at": NOW + 2 * DAY}, ["2026-03-01"]),
        # Midnight of the zone: the last hours of 1 March in New York are 2 March in UTC.
        ({"at": NOW + DAY, "timezone": NEW_YORK}, ["03-02"]),
    ],
)
def test_a_schedule_with_a_time_left_is_not_over(fields, days):
    assert "never_again" not in warnings(**fields, excluded_days=days)


L = "; L is the last day of every month"


@pytest.mark.parametrize(
    ("cron", "text"),
    [
        ("5 1 31 * *", "the 31st comes in 7 of 12 months" + L),
        ("5 1 30 * *", "the 30th comes in 11 of 12 months" + L),
        ("5 1 29 * *", "the 29th comes in 11 of 12 months, and in February of leap years" + L),
        ("5 1 29 2 *", "the 29th comes in February of leap years only" + L),
        ("5 1 31 4-6 *", "the 31st comes in 1 of 3 months" + L),
        ("5 1 15,30 * *", "the 30th comes in 11 of 12 months" + L),
        (
            "5 1 28-30 * *",
            "the 29th comes in 11 of 12 months, and in February of leap years; the 30th comes in 11 of 12 months" + L,
        ),
        ("5 1 30 2 5", "the 30th never comes" + L),
        ("5 1 * * fri#5", "not every month has a fifth Friday"),
        ("5 1 31 * mon#5", f"the 31st comes in 7 of 12 months{L}; not every month has a fifth Monday"),
        ("5 1 31 1,3 *", None),
        ("5 1 28 * *", None),
        ("5 1 L * *", None),
        ("5 1 30,L * *", None),
        ("5 1 */2 * *", None),
        ("5 1 15-31 * *", None),
        ("5 1 31 * 0-6", None),
        ("5 1 * * fri#4", None),
        ("5 1 * * fri,fri#5", None),
        ("5 1 * * *", None),
    ],
)
def test_days_that_some_months_do_not_have(cron, text):
    assert warnings(cron).get("days_left_out") == text


@pytest.mark.parametrize(
    ("cron", "text"),
    [
        ("5 1 13 * 5", "it fires on the 13th of the month, and on Fridays"),
        (
            "5 1 8-14 * 5",
            "it fires on the 8th to 14th of the month, and on Fridays; write fri#2 in the day of week, and * in the"
            " day of month, if a day must be both",
        ),
        (
            "5 1 1-7 * 1,2",
            "it fires on the 1st to 7th of the month, and on Mondays and Tuesdays; write mon#1,tue#1 in the day of"
            " week, and * in the day of month, if a day must be both",
        ),
        ("5 1 1-7,L * 1", "it fires on the 1st to 7th and last day of the month, and on Mondays"),
        ("5 1 1-31 * 5", None),
        ("5 1 13 * 0-6", None),
        ("5 1 13 * *", None),
        ("5 1 * * 5", None),
        ("5 1 */2 * 5", None),
    ],
)
def test_two_day_fields_of_which_either_is_enough(cron, text):
    expected = text and f"a day need not fit both day fields: {text}"
    assert warnings(cron).get("or_of_days") == expected


def test_what_has_no_trigger_is_refused():
    with pytest.raises(InvalidInput):
        warnings("0 0 30 2 *")


@pytest.mark.parametrize(
    ("cron", "days"),
    [
        ("* * * * *", []),
        ("0 0 29 2 */7", []),
        ("30 2 * * *", []),
        ("* * * * *", EACH_DAY),
        ("0 0 * * *", EACH_DAY[1:]),
        ("* * * * *", EACH_DAY[::2]),
    ],
)
def test_it_is_quick(cron, days):
    took = []
    # Each zone's years are looked up anew; the best of three, since the machine has other things to do.
    for zone in ("Antarctica/Troll", "Atlantic/Azores", "Asia/Beirut"):
        start = process_time()
        warnings(cron, zone, excluded_days=days, mean_seconds=1)
        took.append(process_time() - start)
    assert min(took) < 0.05
