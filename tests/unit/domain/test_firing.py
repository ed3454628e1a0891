"""Plans: what fires, what is skipped and why, when a schedule is looked at on time or late."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from mainspring.domain.errors import InvalidInput
from mainspring.domain.firing import (
    FiringPlan,
    FiringRules,
    Misfire,
    Overlap,
    OverlapDecision,
    SkippedRange,
    SkipReason,
    judge_overlap,
    plan_fires,
)
from mainspring.domain.schedule import CronTrigger, IntervalTrigger, OnceTrigger

MINUTELY = CronTrigger.parse("* * * * *")


def at(clock: str, day: int = 1) -> datetime:
    """A time of a day in January 2025."""
    return datetime.fromisoformat(f"2025-01-{day:02} {clock}").replace(tzinfo=UTC)


def plan(now: datetime, runs_left: int | None = None, **rules) -> FiringPlan:
    """The plan of a minutely schedule whose next fire is stored as 10:01."""
    return plan_fires(MINUTELY, FiringRules(**rules), next_nominal_at=at("10:01"), now=now, runs_left=runs_left)


def minutes(first: str, last: str) -> tuple[datetime, ...]:
    count = int((at(last) - at(first)) / timedelta(minutes=1))
    return tuple(at(first) + timedelta(minutes=number) for number in range(count + 1))


def skipped(first: str, last: str, count: int, reason: SkipReason) -> SkippedRange:
    return SkippedRange(at(first), at(last), count, reason)


def test_f01_skip_catches_nothing_up():
    found = plan(at("11:41:30"), misfire=Misfire.SKIP)
    assert found.fire == ()
    assert found.skipped == (skipped("10:01", "11:41", 101, SkipReason.MISFIRE),)
    assert found.next_nominal_at == at("11:42")


def test_f01_fire_once_fires_the_latest():
    found = plan(at("11:41:30"), misfire=Misfire.FIRE_ONCE)
    assert found.fire == (at("11:41"),)
    assert found.skipped == (skipped("10:01", "11:40", 100, SkipReason.SUPERSEDED),)
    assert found.next_nominal_at == at("11:42")


def test_f01_fire_all_fires_the_latest_ten_and_counts_the_others():
    found = plan(at("11:41:30"), misfire=Misfire.FIRE_ALL, max_catchup=10)
    assert found.fire == minutes("11:32", "11:41")
    assert found.skipped == (skipped("10:01", "11:31", 91, SkipReason.MAX_CATCHUP),)
    assert found.skipped_count == 91
    assert found.next_nominal_at == at("11:42")


def test_f01_totals_are_the_same_within_the_grace_of_a_fire():
    found = {misfire: plan(at("11:41:05"), misfire=misfire, max_catchup=10) for misfire in Misfire}
    assert found[Misfire.SKIP].fire == (at("11:41"),)
    assert found[Misfire.FIRE_ONCE].fire == (at("11:41"),)
    assert found[Misfire.FIRE_ALL].fire == minutes("11:32", "11:41")
    assert {each.skipped_count + len(each.fire) for each in found.values()} == {101}


def test_f01_a_second_look_finds_nothing():
    first = plan(at("11:41:30"))
    second = plan_fires(MINUTELY, FiringRules(), next_nominal_at=first.next_nominal_at, now=at("11:41:31"))
    assert (second.fire, second.skipped, second.next_nominal_at) == ((), (), at("11:42"))


def test_f01_ten_years_of_minutes_are_counted_not_walked():
    rules = FiringRules(misfire=Misfire.FIRE_ALL, max_catchup=100)
    started = time.perf_counter()
    found = plan_fires(
        CronTrigger.parse("* * * * *", "Europe/Berlin"),
        rules,
        next_nominal_at=datetime(2015, 1, 1, tzinfo=UTC),
        now=datetime(2025, 1, 1, tzinfo=UTC) - timedelta(seconds=30),
    )
    assert time.perf_counter() - started < 1  # 0.01 s on the machine of 2025
    assert len(found.fire) == 100
    assert found.skipped_count == 3653 * 24 * 60 - 100


@pytest.mark.parametrize("misfire", Misfire)
@pytest.mark.parametrize("now", ["10:01", "10:01:00.100", "10:01:10"])
def test_on_time_fires_under_every_policy(misfire: Misfire, now: str):
    found = plan(at(now), misfire=misfire, max_catchup=0)
    assert (found.fire, found.skipped, found.next_nominal_at) == ((at("10:01"),), (), at("10:02"))


def test_every_fire_of_a_short_stall_is_on_time():
    trigger = IntervalTrigger(timedelta(seconds=1), at("10:00"))
    found = plan_fires(trigger, FiringRules(), next_nominal_at=at("10:00:01"), now=at("10:00:04.5"))
    assert found.fire == tuple(at(f"10:00:0{second}") for second in (1, 2, 3, 4))


def test_a_look_before_the_time_keeps_the_stored_one():
    found = plan(at("09:30"))
    assert (found.fire, found.skipped, found.next_nominal_at) == ((), (), at("10:01"))


def test_the_catchup_window_drops_what_is_too_old():
    window = timedelta(minutes=5)
    found = plan(at("11:41:30"), misfire=Misfire.FIRE_ALL, max_catchup=3, catchup_window=window)
    assert found.fire == minutes("11:39", "11:41")
    assert found.skipped == (
        skipped("10:01", "11:36", 96, SkipReason.CATCHUP_WINDOW),
        skipped("11:37", "11:38", 2, SkipReason.MAX_CATCHUP),
    )
    found = plan(at("11:41:30"), misfire=Misfire.FIRE_ONCE, catchup_window=timedelta(seconds=20))
    assert (found.fire, found.skipped) == ((), (skipped("10:01", "11:41", 101, SkipReason.CATCHUP_WINDOW),))
    found = plan(at("11:41:30"), misfire=Misfire.FIRE_ONCE, catchup_window=timedelta.max)
    assert found.fire == (at("11:41"),)


def test_nominal_times_lie_between_start_and_end():
    found = plan(at("11:41:30"), misfire=Misfire.FIRE_ALL, start_at=at("10:58"), end_at=at("11:00"))
    assert (found.fire, found.skipped, found.next_nominal_at) == (minutes("10:58", "10:59"), (), None)
    found = plan(at("10:01"), start_at=at("10:30:30"))
    assert (found.fire, found.next_nominal_at) == ((), at("10:31"))
    found = plan(at("10:01"), end_at=at("10:02"))
    assert (found.fire, found.next_nominal_at) == ((at("10:01"),), None)


def test_a_schedule_ends_with_its_last_run():
    found = plan(at("10:05:30"), runs_left=2, misfire=Misfire.FIRE_ALL)
    assert found.fire == minutes("10:01", "10:02")
    assert found.skipped == (skipped("10:03", "10:05", 3, SkipReason.MAX_RUNS),)
    assert found.next_nominal_at is None
    assert plan(at("10:01"), runs_left=2).next_nominal_at == at("10:02")
    assert plan(at("10:01:40"), runs_left=0).fire == plan(at("10:02"), runs_left=-1).fire == ()


def test_a_run_lost_to_overlap_is_still_left():
    found = plan(at("10:01"), runs_left=1)
    assert found.next_nominal_at is None
    assert found.under(Overlap.SKIP, active=1, waiting=0).next_nominal_at == at("10:02")


def test_once_is_over_after_its_fire():
    trigger = OnceTrigger(at("10:01"))
    found = plan_fires(trigger, FiringRules(), next_nominal_at=trigger.at, now=at("12:00"))
    assert (found.fire, found.skipped, found.next_nominal_at) == ((at("10:01"),), (), None)


def spread(now: str, misfire: Misfire) -> FiringPlan:
    """An hourly schedule whose fires are planned 40 minutes late, looked at with 08:00 stored."""
    return plan_fires(
        CronTrigger.parse("0 * * * *"),
        FiringRules(misfire=misfire),
        next_nominal_at=at("08:00"),
        now=at(now),
        planned=lambda nominal_at: nominal_at + timedelta(minutes=40),
    )


@pytest.mark.parametrize("misfire", list(Misfire))
def test_a_fire_is_on_time_at_its_planned_instant(misfire: Misfire):
    for now in ("08:40", "08:40:10"):
        assert (spread(now, misfire).fire, spread(now, misfire).skipped) == ((at("08:00"),), ())
    late = spread("08:40:11", misfire)
    assert len(late.fire) == (misfire is not Misfire.SKIP)


@pytest.mark.parametrize("misfire", list(Misfire))
def test_a_fire_that_is_planned_for_later_is_waited_for_after_an_outage_too(misfire: Misfire):
    early = spread("08:39", misfire)
    assert (early.fire, early.skipped, early.next_nominal_at) == ((), (), at("08:00"))
    late = spread("11:05", misfire)
    assert late.next_nominal_at == at("11:00")
    assert at("11:00") not in late.fire
    assert len(late.fire) + late.skipped_count == 3


def test_f02_restarts_neither_lose_nor_repeat_a_fire():
    trigger, rules = CronTrigger.parse("0 0 * * 0"), FiringRules()
    next_nominal_at, fired = rules.first_after(trigger, at("00:00")), []
    for step in range(31 * 24 * 6):
        found = plan_fires(
            trigger, rules, next_nominal_at=next_nominal_at, now=at("00:03") + step * timedelta(minutes=10)
        )
        fired += found.fire
        next_nominal_at = found.next_nominal_at
    assert fired == [at("00:00", day) for day in (5, 12, 19, 26)]


def test_f04_an_edit_or_a_resume_starts_from_now():
    rules = FiringRules()
    assert rules.first_after(CronTrigger.parse("0 17 * * *"), at("18:30")) == at("17:00", 2)
    assert rules.first_after(CronTrigger.parse("0 19 * * *"), at("18:31")) == at("19:00")


@pytest.mark.parametrize(
    ("overlap", "idle", "running", "waiting"),
    [
        (Overlap.ALLOW, "fire", "fire", "fire"),
        (Overlap.QUEUE_ALL, "fire", "fire", "fire"),
        (Overlap.SKIP, "fire", "skip", "skip"),
        (Overlap.QUEUE_ONE, "fire", "fire", "skip"),
        (Overlap.CANCEL_RUNNING, "fire", "fire_and_cancel_running", "fire_and_cancel_running"),
    ],
)
def test_overlap_is_judged_by_the_jobs_that_are_there(overlap: Overlap, idle: str, running: str, waiting: str):
    assert judge_overlap(overlap, active=0, waiting=0) is OverlapDecision(idle)
    assert judge_overlap(overlap, active=1, waiting=0) is OverlapDecision(running)
    assert judge_overlap(overlap, active=2, waiting=1) is OverlapDecision(waiting)


def test_f01_the_fires_of_one_plan_do_not_overlap_each_other():
    found = plan(at("11:41:30"), misfire=Misfire.FIRE_ALL, max_catchup=10)
    for overlap in (Overlap.SKIP, Overlap.ALLOW, Overlap.QUEUE_ALL):
        assert found.under(overlap, active=0, waiting=0) == found


def test_overlap_skips_are_recorded():
    found = plan(at("10:03:30"), misfire=Misfire.FIRE_ALL)
    assert found.under(Overlap.SKIP, active=1, waiting=0).skipped == (skipped("10:01", "10:03", 3, SkipReason.OVERLAP),)
    queued = found.under(Overlap.QUEUE_ONE, active=1, waiting=0)
    assert (queued.fire, queued.skipped) == (
        (at("10:03"),),
        (skipped("10:01", "10:02", 2, SkipReason.OVERLAP),),
    )
    replaced = found.under(Overlap.CANCEL_RUNNING, active=1, waiting=0)
    assert (replaced.fire, replaced.cancels_running) == ((at("10:03"),), True)
    assert not found.under(Overlap.CANCEL_RUNNING, active=0, waiting=0).cancels_running
    nothing = plan(at("09:00"))
    assert nothing.under(Overlap.CANCEL_RUNNING, active=1, waiting=0) == nothing


@pytest.mark.parametrize(
    ("rules", "field"),
    [
        ({"max_catchup": -1}, "max_catchup"),
        ({"max_catchup": 10_001}, "max_catchup"),
        ({"catchup_window": timedelta(seconds=-1)}, "catchup_window_seconds"),
        ({"start_at": at("10:00"), "end_at": at("10:00")}, "end_at"),
    ],
)
def test_rules_out_of_range_are_refused(rules: dict, field: str):
    with pytest.raises(InvalidInput) as raised:
        FiringRules(**rules)
    assert raised.value.field == field
