"""Bulk operations: one action on all jobs, or dead letters, that pass a filter; at a rate, and as a canary if asked.

A canary puts a small share of the dead jobs back to work, waits for what becomes of them, then a larger share, and
stops by itself when too many fail again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple
from uuid import UUID

from mainspring.domain.errors import InvalidInput
from mainspring.domain.job import LOWEST_PRIORITY, check_instant, check_name
from mainspring.domain.states import WAITING, State

#: Jobs in one transaction at most.
MOST_AT_ONCE = 500
#: With a rate, what is due in so many seconds is taken together.
SPAN = 0.25
FASTEST = 10_000.0
SLOWEST = 1 / 3600
CANARY = (0.01, 0.1)
MOST_STEPS = 10


class Action(StrEnum):
    """What is done to each; the last two to dead letters, the others to jobs that have not ended."""

    CANCEL = "cancel"
    RETRY = "retry"
    EDIT = "edit"
    REDRIVE = "redrive"
    DISCARD = "discard"

    @property
    def is_on_dead_letters(self) -> bool:
        """True for what is done to dead letters."""
        return self in {Action.REDRIVE, Action.DISCARD}

    @property
    def states(self) -> frozenset[State]:
        """The states of a job in which it can be done."""
        return _STATES[self]


_STATES = {
    Action.CANCEL: WAITING | {State.RUNNING},
    Action.RETRY: frozenset({State.RETRYING}),
    Action.EDIT: WAITING,
    Action.REDRIVE: frozenset({State.DEAD}),
    Action.DISCARD: frozenset({State.DEAD}),
}
_OF_LIVE = {"states", "queue", "task", "schedule", "tag", "since", "until"}
_OF_DEAD = {"queue", "task", "reason", "fingerprint", "since", "until"}


@dataclass(frozen=True, slots=True)
class BulkFilter:
    """What a job or a dead letter must be or have; what is None or empty asks for nothing.

    ``since`` and ``until`` are of a job's submission, of a dead letter's death.
    """

    states: tuple[State, ...] = ()
    queue: str | None = None
    task: str | None = None
    schedule: str | None = None
    tag: str | None = None
    reason: str | None = None
    fingerprint: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def given(self) -> dict[str, Any]:
        """The fields that ask for something."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: value for name, value in values.items() if value not in (None, ())}

    def check(self, action: Action, *, is_for_all: bool) -> None:
        """Raises InvalidInput naming ``filter.<field>``; ``filter`` when nothing is asked and not ``is_for_all``."""
        given = self.given()
        if bool(given) == is_for_all:
            raise InvalidInput("filter", "ask for something, or say `all`" if not given else "is in the way of `all`")
        kind = "dead letters" if action.is_on_dead_letters else "jobs that have not ended"
        for name in given.keys() - (_OF_DEAD if action.is_on_dead_letters else _OF_LIVE):
            raise InvalidInput(f"filter.{_SHOWN.get(name, name)}", f"{action} is done to {kind}, which it is none of")
        for state in self.states:
            if state not in action.states:
                raise InvalidInput("filter.state", f"{action} can't be done to a job that is {state}")
        for name in ("queue", "task", "schedule"):
            if name in given:
                check_name(f"filter.{name}", given[name])
        check_instant("filter.since", self.since)
        check_instant("filter.until", self.until)


_SHOWN = {"states": "state"}


@dataclass(frozen=True, slots=True)
class Canary:
    """The shares of all (rising, below 1) after which outcomes are awaited, and the share of failures it bears."""

    steps: tuple[float, ...] = CANARY
    most_failures: float = 0.1

    def __post_init__(self) -> None:
        if not 1 <= len(self.steps) <= MOST_STEPS or list(self.steps) != sorted(set(self.steps)):
            raise InvalidInput("canary.steps", f"must be 1 to {MOST_STEPS} shares, each larger than the one before")
        if not 0 < self.steps[0] <= self.steps[-1] < 1:
            raise InvalidInput("canary.steps", "must lie between 0 and 1; all come after the last")
        if not 0 <= self.most_failures < 1:
            raise InvalidInput("canary.most_failures", "must be at least 0 and below 1")


@dataclass(frozen=True, slots=True)
class BulkRequest:
    """What a person asks for. Raises InvalidInput naming the field."""

    action: Action
    filter: BulkFilter = field(default_factory=BulkFilter)
    is_for_all: bool = False
    priority: int | None = None
    per_second: float | None = None
    canary: Canary | None = None
    note: str | None = None

    def __post_init__(self) -> None:
        self.filter.check(self.action, is_for_all=self.is_for_all)
        if (self.priority is not None) != (self.action is Action.EDIT):
            raise InvalidInput("priority", "belongs to an edit, and an edit needs it")
        if self.priority is not None and not 0 <= self.priority <= LOWEST_PRIORITY:
            raise InvalidInput("priority", f"must be from 0 to {LOWEST_PRIORITY}")
        if self.per_second is not None and not SLOWEST <= self.per_second <= FASTEST:
            raise InvalidInput("per_second", f"must be from one an hour to {FASTEST:g}")
        if self.canary and self.action is not Action.REDRIVE:
            raise InvalidInput("canary", "belongs to a redrive")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an operation is; ``pending``: jobs of a canary of which nothing is known yet."""

    matched: int
    taken: int = 0
    step: int = 0
    succeeded: int = 0
    failed: int = 0
    pending: int = 0


@dataclass(frozen=True, slots=True)
class Move:
    """What to do now: take up to ``take`` (0: wait), at ``step`` of a canary; or stop, for a reason."""

    take: int
    step: int = 0
    stops: str | None = None


def next_move(request: BulkRequest, progress: Progress) -> Move:
    """Decide how an operation goes on."""
    most = MOST_AT_ONCE
    if request.per_second is not None:
        most = max(1, min(most, math.floor(request.per_second * SPAN)))
    canary = request.canary
    if canary is None:
        return Move(most)
    judged = progress.succeeded + progress.failed
    step = progress.step
    if judged and (judged >= _allowed(canary, 0, progress) or not progress.pending):
        share = progress.failed / judged
        if share > canary.most_failures:
            stops = f"{progress.failed} of {judged} failed again: {share:.0%}, and {canary.most_failures:.0%} may"
            return Move(0, step, stops)
    while step < len(canary.steps):
        left = _allowed(canary, step, progress) - progress.taken
        if left > 0:
            return Move(min(most, left), step)
        if progress.pending:
            return Move(0, step)
        step += 1
    return Move(most, step)


def _allowed(canary: Canary, step: int, progress: Progress) -> int:
    return math.ceil(canary.steps[step] * progress.matched)


class Reached(NamedTuple):
    """The last one that an operation looked at; of a dead letter with the instant of its death."""

    id: UUID
    died_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class BulkOperation:
    """An operation as it is stored."""

    id: UUID
    request: BulkRequest
    author: str
    state: str
    reason: str | None
    progress: Progress
    missed: int
    reached: Reached
    created_at: datetime
    finished_at: datetime | None
