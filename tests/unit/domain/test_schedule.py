"""Fire times of triggers. A test named by a case holds that case's values: a failure seen in the field."""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime, timedelta, timezone
from importlib.resources import files
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from mainspring.domain.cron import parse
from mainspring.domain.errors import InvalidInput
from mainspring.domain.schedule import CronTrigger, IntervalTrigger, OnceTrigger, fire_times, make_trigger, plan_jitter

FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def at(text: str) -> datetime:
    """``2025-03-08`` or ``2025-03-08T07:30`` in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def instants(texts: str, day: str = "") -> list[datetime]:
    return [at(day + text) for text in texts.split()]


def fires(cron: str, zone: str, start: str, end: str) -> list[datetime]:
    """The fires of a window, walked forwards, backwards and counted."""
    trigger = CronTrigger.parse(cron, zone)
    forwards = list(fire_times(trigger, at(start), at(end)))
    backwards, fire = [], trigger.previous_before(at(end))
    while fire is not None and fire >= at(start):
        backwards.append(fire)
        fire = trigger.previous_before(fire)
    assert backwards[::-1] == forwards
    assert trigger.count_between(at(start), at(end)) == len(forwards)
    return forwards


def firsts(cron: str, start: str, count: int, zone: str = "UTC") -> list[datetime]:
    return list(fire_times(CronTrigger.parse(cron, zone), at(start), count=count))


def test_c01_fixed_time_in_the_spring_gap_fires_at_its_end():
    found = fires("30 2 * * *", "America/New_York", "2025-03-08", "2025-03-11")
    assert found == instants("08T07:30 09T07:00 10T06:30", "2025-03-")


def test_c01_fixed_times_in_one_gap_and_at_its_end_are_one_fire():
    found = fires("0,15,30 2,3 * * *", "America/New_York", "2025-03-09T05:00", "2025-03-09T08:00")
    assert found == instants("09T07:00 09T07:15 09T07:30", "2025-03-")


def test_c02_fixed_time_in_the_overlap_fires_once():
    found = fires("30 1 * * *", "America/New_York", "2025-11-01", "2025-11-04")
    assert found == instants("01T05:30 02T05:30 03T06:30", "2025-11-")


def test_c03_wildcard_gets_no_extra_fire_at_the_gap():
    found = fires("0 */2 * * *", "Europe/Berlin", "2025-03-29T22:00", "2025-03-30T08:00")
    assert found == instants("29T23:00 30T02:00 30T04:00 30T06:00", "2025-03-")


def test_c04_wildcard_fires_all_through_the_overlap():
    expected = instants("04:30 05:00 05:30 06:00 06:30 07:00 07:30", "2025-11-02T")
    assert fires("*/30 * * * *", "America/New_York", "2025-11-02T04:30", "2025-11-02T08:00") == expected
    for earlier, later in pairwise(expected):
        assert CronTrigger.parse("*/30 * * * *", "America/New_York").next_after(earlier) == later


@pytest.mark.parametrize(
    ("cron", "start", "end", "expected"),
    [
        ("0 * * * *", "2025-10-04T13:00", "2025-10-04T19:00", "04T13:30 04T14:30 04T16:00 04T17:00 04T18:00"),
        ("15 2 * * *", "2025-10-04", "2025-10-07", "04T15:30 05T15:15 06T15:15"),
        (
            "5 */3 * * *",
            "2025-10-04T07:00",
            "2025-10-05T04:00",
            "04T07:35 04T10:35 04T13:35 04T16:05 04T19:05 04T22:05 05T01:05",
        ),
    ],
)
def test_c05_a_shift_of_thirty_minutes(cron: str, start: str, end: str, expected: str):
    assert fires(cron, "Australia/Lord_Howe", start, end) == instants(expected, "2025-10-")


def test_c05_a_shift_of_two_hours():
    # Antarctica/Troll leaps from 01:00 to 03:00 on 2025-03-30, and back on 2025-10-26.
    assert fires("30 2 * * *", "Antarctica/Troll", "2025-03-30", "2025-04-01") == instants(
        "30T01:00 31T00:30", "2025-03-"
    )
    assert fires("30 2 * * *", "Antarctica/Troll", "2025-10-25", "2025-10-27") == instants(
        "25T00:30 26T00:30", "2025-10-"
    )
    assert len(fires("30 * * * *", "Antarctica/Troll", "2025-03-30", "2025-03-31")) == 24


def test_c05_clocks_that_change_for_ramadan():
    # Morocco goes from +01 to +00 on 2025-02-23 at 03:00, and back on 2025-04-06 at 02:00.
    for zone in ("Africa/Casablanca", "Africa/El_Aaiun"):
        assert fires("30 2 * * *", zone, "2025-02-22", "2025-02-25") == instants(
            "22T01:30 23T01:30 24T02:30", "2025-02-"
        )
        assert fires("30 2 * * *", zone, "2025-04-05", "2025-04-08") == instants(
            "05T02:30 06T02:00 07T01:30", "2025-04-"
        )


def test_c06_gap_at_midnight():
    found = fires("0 0 * * *", "America/Santiago", "2025-09-05T12:00", "2025-09-09T12:00")
    assert found == instants("06T04:00 07T04:00 08T03:00 09T03:00", "2025-09-")


def test_c06_overlap_at_midnight():
    # 2025-04-06 00:00 is 2025-04-05 23:00 again.
    found = fires("30 23 * * *", "America/Santiago", "2025-04-05", "2025-04-07T12:00")
    assert found == instants("05T02:30 06T02:30 07T03:30", "2025-04-")
    assert len(fires("30 * 5 4 *", "America/Santiago", "2025-04-05", "2025-04-07")) == 25


def test_c06_weekly_over_a_change():
    found = fires("10 3 * * 0", "Europe/Prague", "2025-10-18", "2025-11-03")
    assert found == instants("10-19T01:10 10-26T02:10 11-02T02:10", "2025-")
    found = fires("0 12 * * 0", "Europe/Berlin", "2022-03-24", "2022-04-04")
    assert found == instants("03-27T10:00 04-03T10:00", "2022-")


def test_c06_a_day_that_never_was():
    # Samoa left out 2011-12-30: that day's fire comes at the first instant of the 31st.
    found = fires("0 12 * * *", "Pacific/Apia", "2011-12-29", "2012-01-01")
    assert found == instants("29T22:00 30T10:00 30T22:00 31T22:00", "2011-12-")
    assert fires("0 12 30 12 *", "Pacific/Apia", "2011-12-01", "2012-01-31") == [at("2011-12-30T10:00")]
    assert fires("* * 30 12 *", "Pacific/Apia", "2011-12-01", "2012-01-31") == []


def test_c06_an_overlap_that_begins_after_midnight():
    # St. John's set its clocks back from 00:01 to 23:01 of the day before; 00:00 came twice.
    assert fires("0 0 * * *", "America/St_Johns", "2010-11-07", "2010-11-08") == [at("2010-11-07T02:30")]
    assert fires("0 */12 * * *", "America/St_Johns", "2010-11-07", "2010-11-07T12:00") == instants(
        "02:30 03:30", "2010-11-07T"
    )


def test_c06_a_gap_at_new_year_of_utc():
    # Lisbon went from 23:23:15 to 00:00:00 at 1912-01-01T00:00Z.
    found = fires("30 23 * * *", "Europe/Lisbon", "1911-12-31T12:00", "1912-01-02")
    assert found == instants("1912-01-01T00:00 1912-01-01T23:30")


def test_c07_leap_days():
    assert firsts("0 0 29 2 *", "2025-01-01", 2) == instants("2028-02-29 2032-02-29")
    assert firsts("0 0 29 2 *", "2096-03-01", 1) == [at("2104-02-29")]
    assert CronTrigger.parse("0 0 29 * *").previous_before(at("2024-03-15")) == at("2024-02-29")
    assert CronTrigger.parse("0 0 L * *").previous_before(at("2024-03-01")) == at("2024-02-29")


def test_c07_a_leap_day_on_a_weekday():
    # */7 is Sunday, and starts with a star: both day fields count.
    assert firsts("0 0 29 2 */7", "2025-01-01", 4) == instants("2032-02-29 2060-02-29 2088-02-29 2128-02-29")
    assert CronTrigger.parse("0 0 29 2 */7").previous_before(at("2128-02-29")) == at("2088-02-29")


def test_c08_a_restricted_weekday_saves_a_date_that_never_comes():
    assert firsts("0 0 31 4 1", "2025-01-01", 1) == [at("2025-04-07")]


@pytest.mark.parametrize(
    ("cron", "expected"),
    [
        ("0 12 */2 * 1", "2025-01-13T12:00 2025-01-27T12:00 2025-02-03T12:00 2025-02-17T12:00"),
        ("0 0 1 * */2", "2025-02-01 2025-03-01 2025-04-01 2025-05-01"),
        ("0 0 13 * 5", "2025-01-03 2025-01-10 2025-01-13"),
        ("0 0 1-31 * 4", "2025-01-01 2025-01-02 2025-01-03 2025-01-04"),
        ("0 0 L * 5", "2025-01-03 2025-01-10 2025-01-17 2025-01-24 2025-01-31 2025-02-07"),
    ],
)
def test_c09_day_fields_that_start_with_a_star(cron: str, expected: str):
    assert firsts(cron, "2025-01-01", len(expected.split())) == instants(expected)


def test_c10_the_same_question_has_the_same_answer():
    answers = {CronTrigger.parse("*/7 3-5 * * *", "Asia/Gaza").next_after(at("2025-05-05")) for _ in range(20)}
    assert len(answers) == 1


def test_c12_the_next_fire_follows_the_zone_data():
    # From 2026 on British Columbia keeps summer time, which release 2025b of the zone data doesn't know yet.
    with files("tzdata").joinpath("zoneinfo/America/Vancouver").open("rb") as data:
        new = CronTrigger(parse("0 9 * * *"), ZoneInfo.from_file(data))
    assert new.next_after(at("2026-11-02")) == at("2026-11-02T16:00")
    assert new.next_after(at("2026-11-01T16:00")) == at("2026-11-02T16:00")


@pytest.mark.parametrize("cron", ["* * * * *", "0 0 29 2 *", "59 23 31 12 *", "0 0 1 1 *"])
@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago", "America/New_York"])
def test_time_ends_without_overflow(cron: str, zone: str):
    trigger = CronTrigger.parse(cron, zone)
    assert trigger.next_after(LAST) is None
    assert trigger.previous_before(FIRST) is None
    assert trigger.next_after(FIRST) is not None
    assert trigger.previous_before(LAST) is not None
    assert list(fire_times(trigger, at("9999-12-31"), LAST)) == []


def test_arguments_of_another_zone_and_between_minutes():
    trigger = CronTrigger.parse("*/5 * * * *")
    instant = datetime(2025, 1, 1, 12, 4, 59, 999_999, tzinfo=timezone(timedelta(hours=2)))
    assert trigger.next_after(instant) == at("2025-01-01T10:05")
    assert trigger.next_after(at("2025-01-01T10:05")) == at("2025-01-01T10:10")
    assert trigger.previous_before(at("2025-01-01T10:05")) == at("2025-01-01T10:00")
    assert trigger.previous_before(at("2025-01-01T10:05") + timedelta(microseconds=1)) == at("2025-01-01T10:05")
    with pytest.raises(TypeError):
        trigger.next_after(datetime(2025, 1, 1))  # noqa: DTZ001


def test_an_interval_keeps_its_phase():
    trigger = IntervalTrigger(timedelta(minutes=90), at("2025-01-01T00:10"))
    assert trigger.next_after(at("2025-01-01T00:10")) == at("2025-01-01T01:40")
    assert trigger.next_after(at("2025-01-01T00:09")) == at("2025-01-01T00:10")
    assert trigger.previous_before(at("2025-01-01T00:10")) == at("2024-12-31T22:40")
    assert trigger.previous_before(at("2025-01-01T00:11")) == at("2025-01-01T00:10")
    assert trigger.count_between(at("2025-01-01"), at("2025-01-02")) == 16
    assert trigger.count_between(at("2025-01-02"), at("2025-01-01")) == 0
    assert trigger.next_after(LAST) is None
    assert trigger.previous_before(FIRST) is None


@pytest.mark.parametrize("seconds", [0, 0.999, -1, 366 * 86400 + 1, 1e300, math.nan, math.inf, "60"])
def test_an_interval_has_limits(seconds: float):
    with pytest.raises(InvalidInput) as raised:
        make_trigger(every_seconds=seconds, anchor=at("2025-01-01"))
    assert raised.value.field == "every_seconds"


def test_once():
    trigger = OnceTrigger(datetime(2025, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))))
    assert trigger.at.tzinfo is UTC
    assert trigger.next_after(at("2024-12-31")) == trigger.previous_before(LAST) == at("2025-01-01")
    assert trigger.next_after(trigger.at) is trigger.previous_before(trigger.at) is None
    assert [trigger.count_between(at("2025-01-01"), at(end)) for end in ("2025-01-01", "2025-01-02")] == [
        0,
        1,
    ]


def test_a_trigger_is_made_of_exactly_one_field():
    anchor = at("2025-01-01")
    assert make_trigger(cron="@daily", timezone="Asia/Tokyo", anchor=anchor) == CronTrigger.parse(
        "@daily", "Asia/Tokyo"
    )
    assert make_trigger(every_seconds=60, anchor=anchor) == IntervalTrigger(timedelta(minutes=1), anchor)
    assert make_trigger(at=anchor, anchor=anchor) == OnceTrigger(anchor)
    for fields, field in (
        ({}, "cron"),
        ({"cron": "@daily", "every_seconds": 60}, "cron"),
        ({"cron": 5}, "cron"),
        ({"at": anchor, "timezone": "PST8"}, "timezone"),
        ({"at": datetime(2025, 1, 1)}, "at"),  # noqa: DTZ001
        ({"at": datetime.min.replace(tzinfo=timezone(timedelta(hours=2)))}, "at"),
    ):
        with pytest.raises(InvalidInput) as raised:
            make_trigger(**fields, anchor=anchor)
        assert raised.value.field == field


def test_fire_times_are_bounded_by_end_and_count():
    trigger = CronTrigger.parse("0 * * * *")
    assert list(fire_times(trigger, at("2025-01-01"), at("2025-01-01T02:00"))) == instants("00:00 01:00", "2025-01-01T")
    assert len(list(fire_times(trigger, at("2025-01-01"), at("2025-02-01"), 5))) == 5
    assert list(fire_times(trigger, at("2025-01-01"), at("2024-01-01"))) == []
    assert list(fire_times(trigger, at("2025-01-01"), count=0)) == []
    assert next(fire_times(trigger, FIRST)) is not None


def test_jitter_is_steady_spread_and_ended_by_the_next_fire():
    window = timedelta(minutes=10)
    nominals = [at("2025-01-01") + timedelta(hours=hour) for hour in range(400)]
    drawn = [plan_jitter("nightly", nominal, window, None) for nominal in nominals]
    assert drawn == [plan_jitter("nightly", nominal, window, None) for nominal in nominals]
    assert all(timedelta(0) <= delay < window for delay in drawn)
    assert timedelta(minutes=4) < sum(drawn, timedelta(0)) / len(drawn) < timedelta(minutes=6)
    assert plan_jitter("nightly", nominals[0], window, None) != plan_jitter("weekly", nominals[0], window, None)
    minute = timedelta(minutes=1)
    assert all(plan_jitter("nightly", each, window, each + minute) < minute for each in nominals)
    assert plan_jitter("nightly", nominals[0], timedelta(0), None) == timedelta(0)


def test_next_is_quick():
    trigger = CronTrigger.parse("*/5 9-17 * * MON-FRI", "America/New_York")
    trigger.next_after(at("2025-01-01"))
    started = time.perf_counter()
    assert len(list(fire_times(trigger, at("2025-01-01"), count=2000))) == 2000
    assert time.perf_counter() - started < 1  # 0.02 s on the machine of 2025; a scan by the minute takes minutes
