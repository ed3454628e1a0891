"""What a schedule does when it is looked at: which nominal times become jobs, which are skipped and why.

    plan = plan_fires(trigger, rules, next_nominal_at=…, now=…, runs_left=…)
    plan = plan.under(overlap, active=…, waiting=…)

Every nominal time from the stored ``next_nominal_at`` up to now is in the plan once: in ``fire``, or in a
range of ``skipped`` with its reason. Ranges are counted by the day, not walked: ten years of minutes take
milliseconds.

A nominal time fires at its planned instant, which is before the next nominal time. One that is late by no more than
``grace`` then is *on time*: it fires under every policy. An earlier
one is a *misfire*, and the policy decides. When there are any, the policy's limit holds for the whole plan:
``fire_once`` makes one job in all, ``fire_all`` at most ``max_catchup`` (or what is on time, where that is
more). After an edit or a pause nothing is caught up: the caller stores ``rules.first_after(trigger, now)``.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import islice
from typing import Self

from mainspring.domain.errors import InvalidInput
from mainspring.domain.schedule import TICK, Trigger, fire_times

MOST_CATCHUP = 10_000
#: A nominal time that is late by no more is on time.
GRACE = timedelta(seconds=10)


#: When the fire of a nominal time is planned for: with its jitter, and before the next nominal time.
Planned = Callable[[datetime], datetime]


class Misfire(StrEnum):
    """What becomes of nominal times that passed while nothing could fire them."""

    SKIP = "skip"
    FIRE_ONCE = "fire_once"
    FIRE_ALL = "fire_all"


class Overlap(StrEnum):
    """What a fire does while jobs of its schedule are still waiting or running."""

    ALLOW = "allow"
    SKIP = "skip"
    QUEUE_ONE = "queue_one"
    QUEUE_ALL = "queue_all"
    CANCEL_RUNNING = "cancel_running"


class SkipReason(StrEnum):
    """Why a nominal time made no job."""

    MISFIRE = "misfire"  # missed, and the policy is skip
    SUPERSEDED = "superseded"  # a later fire of the plan stands for it
    MAX_CATCHUP = "max_catchup"  # missed, and later ones fill the limit
    CATCHUP_WINDOW = "catchup_window"  # missed longer ago than the window
    MAX_RUNS = "max_runs"  # the schedule has made its last job
    OVERLAP = "overlap"  # earlier jobs of the schedule are still waiting or running
    FAILURES = "failures"  # its last jobs died, and it pauses itself
    PAUSED = "paused"  # it passed while the schedule was paused
    EDITED = "edited"  # it hadn't fired yet when the schedule was given another trigger
    ZONE_DATA = "zone_data"  # its wall-clock time had come already, by the zone's rules of then


class OverlapDecision(StrEnum):
    """The verdict on a fire."""

    FIRE = "fire"
    SKIP = "skip"
    FIRE_AND_CANCEL_RUNNING = "fire_and_cancel_running"


@dataclass(frozen=True, slots=True)
class SkippedRange:
    """``count`` nominal times in a row, from ``first`` to ``last`` with both, that make no job."""

    first: datetime
    last: datetime
    count: int
    reason: SkipReason


@dataclass(frozen=True, slots=True)
class FiringRules:
    """A schedule's own bounds and policies.

    Nominal times lie in [start_at, end_at). ``catchup_window`` is how old a missed one may be and still fire.
    Raises InvalidInput naming the field.
    """

    misfire: Misfire = Misfire.FIRE_ONCE
    max_catchup: int = 100
    catchup_window: timedelta | None = None
    start_at: datetime | None = None
    end_at: datetime | None = None
    grace: timedelta = GRACE

    def __post_init__(self) -> None:
        if not 0 <= self.max_catchup <= MOST_CATCHUP:
            raise InvalidInput("max_catchup", f"must be from 0 to {MOST_CATCHUP}")
        if self.catchup_window is not None and self.catchup_window < timedelta(0):
            raise InvalidInput("catchup_window_seconds", "must not be negative")
        if self.start_at is not None and self.end_at is not None and self.end_at <= self.start_at:
            raise InvalidInput("end_at", "must be later than start_at")

    def hold(self, instant: datetime) -> bool:
        """Whether it lies in [start_at, end_at)."""
        return (self.start_at is None or self.start_at <= instant) and (self.end_at is None or instant < self.end_at)

    def first_after(self, trigger: Trigger, instant: datetime) -> datetime | None:
        """The first nominal time later than ``instant``; None when the schedule is over."""
        after = instant if self.start_at is None else max(instant, self.start_at - TICK)
        nominal_at = trigger.next_after(after)
        is_over = nominal_at is None or (self.end_at is not None and nominal_at >= self.end_at)
        return None if is_over else nominal_at


@dataclass(frozen=True, slots=True)
class FiringPlan:
    """The nominal times to fire, in order, those skipped, and what to store as the next one.

    ``following_at`` is the first nominal time that isn't planned; the next one is that, unless no runs are left.
    """

    fire: tuple[datetime, ...]
    skipped: tuple[SkippedRange, ...]
    following_at: datetime | None
    runs_left: int | None = None
    cancels_running: bool = False

    @property
    def next_nominal_at(self) -> datetime | None:
        """What the schedule waits for next when each fire makes its job; None when it is over."""
        return self.next_nominal_after(len(self.fire))

    def next_nominal_after(self, made: int) -> datetime | None:
        """What it waits for next once ``made`` jobs were made: a backfill may have had a nominal time already."""
        return None if self.runs_left is not None and made >= self.runs_left else self.following_at

    @property
    def skipped_count(self) -> int:
        """How many nominal times make no job."""
        return sum(each.count for each in self.skipped)

    def under(self, overlap: Overlap, *, active: int, waiting: int) -> Self:
        """The plan once the overlap policy is judged against the jobs that earlier plans made.

        The fires of one plan don't overlap each other: who asks for ``fire_all`` gets all of them. But
        ``queue_one`` and ``cancel_running`` leave room for one, the latest.
        """
        if not self.fire:
            return self
        decision = judge_overlap(overlap, active=active, waiting=waiting)
        if decision is OverlapDecision.SKIP:
            return self.keep_latest(0, SkipReason.OVERLAP)
        keeps_one = overlap in {Overlap.QUEUE_ONE, Overlap.CANCEL_RUNNING}
        plan = self.keep_latest(1, SkipReason.OVERLAP) if keeps_one else self
        return replace(plan, cancels_running=True) if decision is OverlapDecision.FIRE_AND_CANCEL_RUNNING else plan

    def keep_earliest(self, count: int, reason: SkipReason) -> Self:
        """The plan with at most ``count`` fires; the later ones are skipped for ``reason``."""
        cut = max(count, 0)
        return replace(self, fire=self.fire[:cut], skipped=(*self.skipped, *_range_of(self.fire[cut:], reason)))

    def keep_latest(self, count: int, reason: SkipReason) -> Self:
        """The plan with at most ``count`` fires; the earlier ones are skipped for ``reason``."""
        cut = max(len(self.fire) - count, 0)
        return replace(self, fire=self.fire[cut:], skipped=(*self.skipped, *_range_of(self.fire[:cut], reason)))


def judge_overlap(overlap: Overlap, *, active: int, waiting: int) -> OverlapDecision:
    """Whether a fire may make a job while ``active`` jobs of its schedule wait or run, ``waiting`` wait."""
    if overlap is Overlap.SKIP and active > 0:
        return OverlapDecision.SKIP
    if overlap is Overlap.QUEUE_ONE and waiting > 0:
        return OverlapDecision.SKIP
    if overlap is Overlap.CANCEL_RUNNING and active > 0:
        return OverlapDecision.FIRE_AND_CANCEL_RUNNING
    return OverlapDecision.FIRE


def plan_fires(
    trigger: Trigger,
    rules: FiringRules,
    *,
    next_nominal_at: datetime,
    now: datetime,
    runs_left: int | None = None,
    planned: Planned = lambda nominal_at: nominal_at,
) -> FiringPlan:
    """Plan every nominal time from ``next_nominal_at`` on whose planned instant has come.

    ``runs_left`` is how many jobs may still be made. Called early, or with a clock that went back, it plans nothing and
    keeps the stored next nominal time.
    """
    if now - rules.grace <= planned(next_nominal_at) <= now and _names(trigger, rules, next_nominal_at):
        # The common way: one nominal time is due, and the next one is yet to come.
        following_at = rules.first_after(trigger, next_nominal_at)
        if following_at is None or planned(following_at) > now:
            plan = FiringPlan((next_nominal_at,), (), following_at, runs_left)
            return plan if runs_left is None else plan.keep_earliest(runs_left, SkipReason.MAX_RUNS)
    start = max(next_nominal_at, rules.start_at or next_nominal_at)
    horizon = _first_planned_from(trigger, planned, now + TICK)
    end = min(horizon, rules.end_at or horizon)
    on_time_from = max(start, _first_planned_from(trigger, planned, now - rules.grace))
    on_time = tuple(fire_times(trigger, on_time_from, end))
    caught_up, skipped = _catch_up(trigger, rules, (start, min(on_time_from, end)), now, len(on_time))
    following_at = rules.first_after(trigger, max(horizon, next_nominal_at) - TICK)
    plan = FiringPlan((*caught_up, *on_time), skipped, following_at, runs_left)
    return plan if runs_left is None else plan.keep_earliest(runs_left, SkipReason.MAX_RUNS)


def _first_planned_from(trigger: Trigger, planned: Planned, instant: datetime) -> datetime:
    """From which nominal time on fires are planned for ``instant`` or later: at most one of them is before it."""
    last = trigger.previous_before(instant)
    return last if last is not None and planned(last) >= instant else instant


def _names(trigger: Trigger, rules: FiringRules, instant: datetime) -> bool:
    return rules.hold(instant) and trigger.next_after(instant - TICK) == instant


def pass_over(
    trigger: Trigger, rules: FiringRules, *, next_nominal_at: datetime, now: datetime, reason: SkipReason
) -> tuple[SkippedRange, ...]:
    """The nominal times of [next_nominal_at, now], which will not fire any more: at most one range."""
    start = max(next_nominal_at, rules.start_at or next_nominal_at)
    return skipped_between(trigger, start, min(now + TICK, rules.end_at or now + TICK), reason)


def _catch_up(
    trigger: Trigger, rules: FiringRules, missed: tuple[datetime, datetime], now: datetime, on_time: int
) -> tuple[tuple[datetime, ...], tuple[SkippedRange, ...]]:
    """Which of the times missed in [start, end) still fire, and the ranges of the others."""
    start, end = missed
    limit, reason = _limit(rules)
    window = rules.catchup_window if limit > 0 else None
    oldest = start if window is None or now - start <= window else min(now - window, end)
    fires = _latest(trigger, oldest, end, max(limit - on_time, 0))
    passed_over = skipped_between(trigger, oldest, fires[0] if fires else end, reason)
    return fires, (*skipped_between(trigger, start, oldest, SkipReason.CATCHUP_WINDOW), *passed_over)


def _limit(rules: FiringRules) -> tuple[int, SkipReason]:
    """How many jobs a plan with misfires makes, and why the other nominal times make none."""
    match rules.misfire:
        case Misfire.SKIP:
            return 0, SkipReason.MISFIRE
        case Misfire.FIRE_ONCE:
            return 1, SkipReason.SUPERSEDED
        case Misfire.FIRE_ALL:
            return rules.max_catchup, SkipReason.MAX_CATCHUP


def _latest(trigger: Trigger, start: datetime, end: datetime, count: int) -> tuple[datetime, ...]:
    """The last ``count`` fires of [start, end), in order."""
    return tuple(reversed([*islice(_backwards(trigger, start, end), count)]))


def _backwards(trigger: Trigger, start: datetime, end: datetime) -> Iterator[datetime]:
    fire = trigger.previous_before(end)
    while fire is not None and fire >= start:
        yield fire
        fire = trigger.previous_before(fire)


def skipped_between(trigger: Trigger, start: datetime, end: datetime, reason: SkipReason) -> tuple[SkippedRange, ...]:
    """The nominal times of [start, end) as one range, or nothing when there are none."""
    if start >= end:
        return ()
    count = trigger.count_between(start, end)
    first, last = trigger.next_after(start - TICK), trigger.previous_before(end)
    return (SkippedRange(first, last, count, reason),) if count > 0 and first and last else ()


def _range_of(fires: tuple[datetime, ...], reason: SkipReason) -> tuple[SkippedRange, ...]:
    return (SkippedRange(fires[0], fires[-1], len(fires), reason),) if fires else ()
