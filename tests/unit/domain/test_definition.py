"""Schedules as people write them down."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from mainspring.domain.definition import ScheduleDefinition, key_of_fire
from mainspring.domain.errors import InvalidInput

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def schedule(**fields):
    return ScheduleDefinition(**({"name": "nightly", "task": "report.make", "cron": "0 12 * * *"} | fields))


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": "Nightly"}, "name"),
        ({"task": ""}, "task"),
        ({"queue": "a b"}, "queue"),
        ({"priority": 10}, "priority"),
        ({"priority": -1}, "priority"),
        ({"tags": ("ok", "a\n")}, "tags.1"),
        ({"tags": ("a",) * 33}, "tags"),
        ({"jitter": timedelta(seconds=-1)}, "jitter_seconds"),
        ({"jitter": timedelta(days=1, seconds=1)}, "jitter_seconds"),
        ({"max_runs": 0}, "max_runs"),
        ({"max_catchup": -1}, "max_catchup"),
        ({"catchup_window": timedelta(seconds=-1)}, "catchup_window_seconds"),
        ({"start_at": NOON.replace(tzinfo=None)}, "start_at"),
        ({"end_at": datetime.max.replace(tzinfo=UTC)}, "end_at"),
        ({"start_at": NOON, "end_at": NOON}, "end_at"),
        ({"cron": None, "at": NOON.replace(tzinfo=None)}, "at"),
    ],
)
def test_a_bad_field_is_refused_by_its_name(fields, field):
    with pytest.raises(InvalidInput) as refusal:
        schedule(**fields)
    assert refusal.value.field == field


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"cron": "0 0 30 2 *"}, "cron"),
        ({"cron": None}, "cron"),
        ({"every_seconds": 60}, "cron"),
        ({"cron": None, "every_seconds": 0}, "every_seconds"),
        ({"timezone": "Mars/Phobos"}, "timezone"),
    ],
)
def test_c08_a_trigger_that_never_fires_is_refused_by_its_field(fields, field):
    with pytest.raises(InvalidInput) as refusal:
        schedule(**fields).trigger(NOON)
    assert refusal.value.field == field


@pytest.mark.parametrize(("start_at", "first"), [(None, NOON + HOUR), (NOON - HOUR / 2, NOON + HOUR / 2)])
def test_an_interval_has_the_phase_of_its_start_or_of_its_anchor(start_at, first):
    trigger = schedule(cron=None, every_seconds=3600, start_at=start_at).trigger(NOON)
    assert trigger.next_after(NOON) == first


def test_its_rules_are_its_bounds_and_policies():
    one = schedule(max_catchup=7, catchup_window=HOUR, start_at=NOON, end_at=NOON + HOUR, misfire="fire_all")
    rules = one.timetable(NOON).rules
    assert (rules.misfire, rules.max_catchup, rules.catchup_window) == ("fire_all", 7, HOUR)
    assert (rules.start_at, rules.end_at) == (NOON, NOON + HOUR)


def test_jitter_is_the_same_for_every_scheduler_and_stays_within_its_window():
    one = schedule(jitter=HOUR).timetable(NOON)
    nominals = [NOON + timedelta(days=day) for day in range(50)]
    fires = [one.fires_at(nominal_at) for nominal_at in nominals]
    assert fires == [schedule(jitter=HOUR).timetable(NOON - HOUR).fires_at(nominal_at) for nominal_at in nominals]
    assert all(nominal_at <= fire < nominal_at + HOUR for nominal_at, fire in zip(nominals, fires, strict=True))
    assert len({fire - nominal_at for nominal_at, fire in zip(nominals, fires, strict=True)}) > 40


def test_without_jitter_or_without_a_next_time_nothing_is_added():
    one = schedule().timetable(NOON)
    assert one.fires_at(NOON) == NOON
    assert one.fires_at(None) is None


@pytest.mark.parametrize(
    ("nominal_at", "key"),
    [
        (NOON, "nightly:2026-01-31T12:00:00Z"),
        (NOON + timedelta(milliseconds=5), "nightly:2026-01-31T12:00:00.005000Z"),
        (NOON.astimezone(timezone(timedelta(hours=5, minutes=30))), "nightly:2026-01-31T12:00:00Z"),
    ],
)
def test_the_key_of_a_fire_names_its_instant(nominal_at, key):
    assert key_of_fire("nightly", nominal_at) == key
