"""What schedules will ask of a fleet, who makes the peaks, and what a proposed spread does to them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from mainspring.domain.definition import ScheduleDefinition
from mainspring.domain.firing import Overlap
from mainspring.domain.forecast import Load
from mainspring.domain.planned_fires import Entry, NominalTimes, Window
from mainspring.domain.schedule import fire_times
from mainspring.domain.spread import choose_targets, propose, to_move

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
MIDNIGHT = datetime(2026, 2, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


def entry(name="nightly", seconds: float | None = 1.0, waits_for=None, runs_left=None, **fields):
    given = {"task": "t", "overlap": Overlap.ALLOW} | fields
    if not {"cron", "every_seconds", "at"} & given.keys():
        given["cron"] = "0 0 * * *"
    definition = ScheduleDefinition(name, **given)
    return Entry(definition.timetable(NOON), definition.overlap, seconds, waits_for, runs_left)


def load_of(*entries, start=NOON, step=MINUTE, count=1440, **bounds):
    load = Load(Window(start, step, count), **bounds)
    for one in entries:
        load.take(one)
    return load


def needed(load):
    """The buckets that need slots, by their minute."""
    start = load.window.start
    return {int((one.at - start) / MINUTE): one.slots_needed for one in load.buckets() if one.slots_needed}


def fires(load):
    start = load.window.start
    return {int((one.at - start) / MINUTE): one.fires for one in load.buckets() if one.fires}


def spread_of(load, slots, *entries):
    targets = choose_targets(load, slots)
    names, left_out = to_move(load, targets)
    return propose(load, targets, [one for one in entries if one.timetable.schedule in names]), left_out


def test_a_job_counts_where_it_runs_and_is_spread_over_the_buckets_that_it_runs_through():
    load = load_of(entry(at=NOON + timedelta(minutes=5, seconds=45), seconds=90))
    assert fires(load) == {5: 1}
    assert needed(load) == {5: 0.25, 6: 1.0, 7: 0.25}


def test_a_job_that_runs_beyond_the_window_is_cut_at_its_end():
    load = load_of(entry(at=NOON + 59 * MINUTE, seconds=7200), count=60)
    assert needed(load) == {59: 1.0}


def test_slots_needed_are_fires_times_mean_duration():
    load = load_of(entry(cron="* * * * *", seconds=90), entry("other", every_seconds=10, seconds=12), count=60)
    last = load.buckets()[-1]
    assert last.fires == 1 + 6
    assert last.slots_needed == pytest.approx(1.5 + 1.2)


def test_a_fire_that_would_meet_the_job_before_it_makes_none_under_skip():
    load = load_of(entry(cron="* * * * *", seconds=90, overlap=Overlap.SKIP), count=60)
    assert sum(fires(load).values()) == 30
    assert max(needed(load).values()) == 1.0


def test_a_fire_counts_at_its_planned_instant_and_in_the_window_it_is_planned_for():
    one = entry(cron="*/30 * * * *", jitter=timedelta(minutes=25))
    window = Window(NOON, MINUTE, 60)
    expected = [
        planned
        for nominal_at in fire_times(one.timetable.trigger, NOON - HOUR, NOON + HOUR)
        if NOON <= (planned := one.timetable.fires_at(nominal_at)) < NOON + HOUR
    ]
    waits_for = one.timetable.trigger.previous_before(NOON)
    found = [NOON + timedelta(seconds=each) for each in NominalTimes(window).planned(one._replace(waits_for=waits_for))]
    assert found == expected


def test_a_fire_whose_jitter_leads_into_the_window_counts_only_while_it_is_waited_for():
    nominal_at = NOON - 30 * MINUTE
    names = (f"s{number}" for number in range(100))
    one = next(
        one
        for one in (entry(name, cron="30 * * * *", jitter=HOUR) for name in names)
        if one.timetable.fires_at(nominal_at) >= NOON
    )
    assert sum(fires(load_of(one._replace(waits_for=nominal_at), count=30)).values()) == 1
    assert sum(fires(load_of(one._replace(waits_for=NOON + 30 * MINUTE), count=30)).values()) == 0


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ({"start_at": NOON + timedelta(hours=2)}, [2, 3]),
        ({"end_at": NOON + timedelta(hours=2)}, [0, 1]),
        ({"runs_left": 1}, [0]),
        ({"waits_for": NOON + timedelta(hours=3)}, [3]),
    ],
)
def test_bounds_of_the_schedule_hold(bounds, expected):
    load = load_of(entry(cron="0 * * * *", **bounds), count=240)
    assert fires(load) == {hour * 60: 1 for hour in expected}


def test_unknown_durations_are_counted_and_assumed():
    load = load_of(entry("known", seconds=30), entry("unknown", seconds=None))
    assert (load.schedules, load.unknown_durations) == (2, 1)
    assert needed(load)[720] == pytest.approx(31 / 60)


def test_schedules_of_one_expression_walk_over_it_once():
    times = NominalTimes(Window(NOON, MINUTE, 1440))
    first, second = entry("a", cron="* * * * *"), entry("b", cron="* * * * *")
    assert times.of(first.timetable.trigger, 10_000) is times.of(second.timetable.trigger, 10_000)
    assert len(list(times.planned(first))) == 1440


def test_the_number_of_fires_is_bounded():
    load = load_of(entry("a", cron="* * * * *"), entry("b", every_seconds=1), entry("c"), most=2000)
    assert load.is_full
    assert sum(fires(load).values()) == 2000
    assert not load_of(entry("a", cron="* * * * *"), most=1440).is_full


def test_peaks_are_named_with_the_schedules_that_make_them_and_lie_apart():
    load = load_of(
        entry("large", seconds=180),
        *(entry(f"small-{number:02}", seconds=6) for number in range(20)),
        entry("noon", at=NOON, seconds=30),
    )
    first, second = load.peaks()
    assert (first.at, first.fires) == (MIDNIGHT, 21)
    assert first.slots_needed == pytest.approx(3.0)
    assert first.schedules[0].name == "large"
    assert first.schedules[0].share == pytest.approx(1 / 3)
    assert [one.name for one in first.schedules[1:]] == [f"small-{number:02}" for number in range(9)]
    assert (second.at, [one.name for one in second.schedules]) == (NOON, ["noon"])


def test_a_peak_names_a_job_that_began_before_it():
    load = load_of(entry("long", at=NOON, seconds=3600), entry("short", at=NOON + 30 * MINUTE, seconds=60), count=60)
    (first, *_) = load.peaks()
    assert first.at == NOON + 30 * MINUTE
    assert [one.name for one in first.schedules] == ["long", "short"]


@pytest.mark.timeout(60)
def test_the_herd_of_one_midnight_is_spread_by_its_jitter():
    """50,000 jobs of one midnight over 10 minutes: no 10 seconds hold more than 2.5 %, and none meets the next fire."""
    load = Load(Window(MIDNIGHT, timedelta(seconds=10), 6 * 20))
    for number in range(50_000):
        load.take(entry(f"s{number}", jitter=timedelta(minutes=10), waits_for=MIDNIGHT))
    counts = [one.fires for one in load.buckets()]
    assert sum(counts) == 50_000
    assert max(counts) <= 0.025 * 50_000
    assert not any(counts[60:])


def test_a_jitter_longer_than_the_period_stays_below_the_next_fire():
    one = entry(every_seconds=60, jitter=timedelta(minutes=10))
    offsets = list(NominalTimes(Window(NOON, MINUTE, 60)).planned(one))
    assert all(number * 60 <= offset < (number + 1) * 60 for number, offset in enumerate(offsets))
    assert len(offsets) == 60


def herd(count=200, seconds=30.0, **fields):
    return [entry(f"h{number:04}", seconds=seconds, **fields) for number in range(count)]


def test_a_spread_brings_the_peak_below_the_slots_and_is_the_same_each_time():
    load = load_of(*herd())
    spread, left_out = spread_of(load, 20, *herd())
    assert spread.before.slots_needed == pytest.approx(100)
    assert spread.after.slots_needed <= 25
    assert (len(spread.moves), left_out) == (200, 0)
    assert {move.proposed for move in spread.moves} == {timedelta(minutes=5)}
    assert spread_of(load, 20, *reversed(herd()))[0] == spread


def test_without_an_overload_the_highest_peaks_are_spread():
    load = load_of(*herd())
    spread, _ = spread_of(load, 1000, *herd())
    assert spread.after.slots_needed < spread.before.slots_needed / 4
    assert spread_of(load, 0, *herd())[0] == spread


def test_what_is_spread_already_gets_no_proposal():
    once = herd(jitter=timedelta(minutes=10))
    assert spread_of(load_of(*once), 50, *once)[0].moves == ()


def test_a_schedule_alone_and_one_that_fires_all_the_time_are_left_alone():
    alone = entry(seconds=600)
    assert spread_of(load_of(alone), 0, alone)[0].moves == ()
    dense = [entry(f"d{number}", cron="* * * * *", seconds=30) for number in range(10)]
    assert spread_of(load_of(*dense), 2, *dense)[0].moves == ()


def test_a_proposed_jitter_is_at_most_half_the_time_to_the_next_fire():
    hourly = herd(cron="0 * * * *", seconds=600)
    moves = spread_of(load_of(*hourly), 5, *hourly)[0].moves
    assert {move.proposed for move in moves} == {timedelta(minutes=30)}


def test_a_proposal_moves_first_what_makes_peaks_alone_and_says_how_many_are_left():
    load = load_of(*herd(), entry("large", seconds=60), entry("frequent", cron="*/10 * * * *", seconds=60))
    names, left_out = to_move(load, choose_targets(load, 20), most=50)
    assert names[:2] == ["large", "h0000"]
    assert (len(names), left_out) == (50, 151)


def test_the_highest_peak_is_lowered_first():
    lower = [entry(f"a{number}", cron="0 6 * * *", seconds=30) for number in range(60)]
    load = load_of(*lower, *herd(100))
    names, _ = to_move(load, choose_targets(load, 0), most=100)
    assert names == [f"h{number:04}" for number in range(100)]


def test_nothing_at_all_is_a_forecast_too():
    load = load_of()
    assert load.peaks() == []
    spread, left_out = spread_of(load, 5)
    assert (spread.moves, left_out) == ((), 0)
