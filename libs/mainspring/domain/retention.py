"""How long ended jobs, their results, their history and their keys are kept.

What is older than all that is kept goes by the drop of a day's partition; what its queue keeps for less than others
goes row by row, in small transactions. Jobs that have not ended and dead letters are never in question.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from mainspring.domain.errors import InvalidInput
from mainspring.domain.states import State
from mainspring.domain.unique import LONGEST_PERIOD

LONGEST_DAYS = 36_500.0
#: An hour: what is kept for less than a day goes row by row.
SHORTEST_DAYS = 1 / 24
MOST_LAST = 10_000_000
#: What a queue keeps is judged in steps: a partition is looked at again when its cutoffs have moved on.
STEP = timedelta(hours=1)


def _check_days(instance: Any, names: tuple[str, ...]) -> None:
    for name in names:
        days = getattr(instance, name)
        if days is not None and not SHORTEST_DAYS <= days <= LONGEST_DAYS:
            raise InvalidInput(name, f"must be from an hour (1/24) to {LONGEST_DAYS:g} days")


@dataclass(frozen=True, slots=True)
class Retention:
    """For all queues, in days. ``results_days``: None keeps a result as long as its job.

    ``history_days`` is of attempts and events; idempotency keys and completions are kept for ``keys_days`` longer than
    any job. Raises InvalidInput.
    """

    succeeded_days: float = 30
    cancelled_days: float = 30
    results_days: float | None = None
    history_days: float = 90
    keys_days: float = 30

    def __post_init__(self) -> None:
        _check_days(self, ("succeeded_days", "cancelled_days", "results_days", "history_days", "keys_days"))


@dataclass(frozen=True, slots=True)
class QueueRetention:
    """What a queue keeps otherwise; None: as all. ``last``: no more than so many of its ended jobs.

    Raises InvalidInput.
    """

    succeeded_days: float | None = None
    cancelled_days: float | None = None
    results_days: float | None = None
    last: int | None = None

    def __post_init__(self) -> None:
        _check_days(self, ("succeeded_days", "cancelled_days", "results_days"))
        if self.last is not None and not 1 <= self.last <= MOST_LAST:
            raise InvalidInput("last", f"must be from 1 to {MOST_LAST}")

    def as_json(self) -> dict[str, Any]:
        """What is said."""
        return {one.name: value for one in fields(self) if (value := getattr(self, one.name)) is not None}


class Cutoff(NamedTuple):
    """Of the jobs of a queue in a state those are over that ended before ``jobs``, and results before ``results``."""

    queue: str
    state: State
    jobs: datetime
    results: datetime


class Day(NamedTuple):
    """A partition, and the instants that it is of."""

    table: str
    name: str
    begins: datetime
    ends: datetime


_STATES = {State.SUCCEEDED: "succeeded_days", State.CANCELLED: "cancelled_days"}
NEVER = datetime(1, 1, 2, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Keeping:
    """What is kept at an instant. ``last_cutoffs``: when the oldest ended of the jobs that ``last`` keeps, by queue."""

    now: datetime
    of_all: Retention
    queues: Mapping[str, QueueRetention] = field(default_factory=dict)
    last_cutoffs: Mapping[str, datetime] = field(default_factory=dict)

    @property
    def no_job_since(self) -> datetime:
        """No job that ended before is kept by anybody."""
        days = [self.of_all.succeeded_days, self.of_all.cancelled_days]
        days += [getattr(one, name) or 0.0 for one in self.queues.values() for name in _STATES.values()]
        return self._before(max(days))

    @property
    def no_history_since(self) -> datetime:
        """No attempt and no event from before is kept."""
        return self._before(self.of_all.history_days)

    @property
    def no_key_since(self) -> datetime:
        """No idempotency key, no completion and no place of a unique job from before is kept."""
        return min(self.no_job_since - timedelta(days=self.of_all.keys_days), self._before(LONGEST_PERIOD.days))

    def of(self, day: Day) -> list[Cutoff]:
        """The cutoffs of a day's jobs, within the day: of queues that keep something otherwise, then of all others.

        Others keep a day as a whole: either it is over, and some queue keeps its own, or it isn't.
        """
        own = [self._cutoff(queue, one, state) for queue, one in sorted(self.queues.items()) for state in _STATES]
        others = [self._cutoff("", QueueRetention(), state) for state in _STATES]
        others = [one._replace(jobs=one.jobs if day.ends <= one.jobs else day.begins) for one in others]
        return [one._replace(jobs=_within(day, one.jobs), results=_within(day, one.results)) for one in (*own, *others)]

    def _cutoff(self, queue: str, own: QueueRetention, state: State) -> Cutoff:
        name = _STATES[state]
        jobs = self._before(getattr(own, name) or getattr(self.of_all, name))
        results_days = own.results_days or self.of_all.results_days
        results = self._before(results_days) if results_days else NEVER
        return Cutoff(queue, state, max(jobs, self.last_cutoffs.get(queue, jobs)), results)

    def _before(self, days: float) -> datetime:
        instant = self.now - timedelta(days=min(days, (self.now - NEVER).days))
        return instant - (instant - NEVER) % STEP


def _within(day: Day, instant: datetime) -> datetime:
    return min(max(instant, day.begins), day.ends)
