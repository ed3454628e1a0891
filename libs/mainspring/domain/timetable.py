"""Timetables: when a schedule fires, and by which rules. It is all that firing asks of a schedule's definition."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache

from mainspring.domain.firing import FiringPlan, FiringRules, Misfire, plan_fires
from mainspring.domain.schedule import Trigger, plan_jitter


@dataclass(frozen=True, slots=True)
class Timetable:
    """The nominal times of one schedule, and the planned instant of each."""

    schedule: str
    trigger: Trigger
    rules: FiringRules
    jitter: timedelta = timedelta(0)

    def planned(self, nominal_at: datetime) -> datetime:
        """The nominal time plus its jitter: the same for every scheduler that asks."""
        if not self.jitter:
            return nominal_at
        return nominal_at + plan_jitter(self.schedule, nominal_at, self.jitter, self.trigger.next_after(nominal_at))

    def fires_at(self, nominal_at: datetime | None) -> datetime | None:
        """``planned`` of what may be over."""
        return None if nominal_at is None else self.planned(nominal_at)

    def first_after(self, instant: datetime) -> datetime | None:
        """The first nominal time later than ``instant``; None when the schedule is over."""
        return self.rules.first_after(self.trigger, instant)

    def plan(self, next_nominal_at: datetime, now: datetime, runs_left: int | None) -> FiringPlan:
        """What becomes of the nominal times from ``next_nominal_at`` on: see ``firing.plan_fires``."""
        return plan_fires(
            self.trigger,
            self.rules,
            next_nominal_at=next_nominal_at,
            now=now,
            runs_left=runs_left,
            planned=self.planned,
        )


@lru_cache(maxsize=1024)
def firing_rules(
    misfire: Misfire, max_catchup: int, catchup_window: timedelta, start_at: datetime | None, end_at: datetime | None
) -> FiringRules:
    """A schedule's bounds and misfire policy; most have the same few. Raises InvalidInput."""
    return FiringRules(misfire, max_catchup, catchup_window, start_at, end_at)
