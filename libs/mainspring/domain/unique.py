"""Unique jobs: of those that are the same only one is there, and what a submit of another one does."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from mainspring.domain.errors import InvalidInput
from mainspring.domain.states import FINAL, WAITING, State

LONGEST_PERIOD = timedelta(days=30)
#: The states of a job that has not ended.
UNENDED = tuple(sorted(WAITING | {State.RUNNING}))


class Then(StrEnum):
    """What becomes of a submit that meets a job that is the same."""

    #: Nothing is made: the job that is there is the answer.
    KEEP = "keep"
    #: If it waits it takes the new payload and priority, and keeps its time; else a new one is made.
    REPLACE = "replace"
    #: As replace, and it takes the new time as well.
    POSTPONE = "postpone"


@dataclass(frozen=True, slots=True)
class Unique:
    """Jobs of a task with the same ``key`` are the same; without a key, those with an equal payload.

    One that is there counts while it is in one of ``states`` (without them: until it has ended; with a ``period`` also
    once it has succeeded), and with a ``period`` only for so long after its submission. Raises InvalidInput.
    """

    key: str | None = None
    period: timedelta | None = None
    states: tuple[State, ...] = ()
    then: Then = Then.KEEP

    def __post_init__(self) -> None:
        if self.key is not None and not (1 <= len(self.key) <= 255 and self.key.isprintable()):
            raise InvalidInput("unique.key", "must be 1 to 255 printable characters")
        if self.period is not None and not timedelta(seconds=1) <= self.period <= LONGEST_PERIOD:
            raise InvalidInput("unique.period_seconds", f"must be from 1 to {LONGEST_PERIOD.total_seconds():g} seconds")
        if self.period is None and FINAL & set(self.states):
            raise InvalidInput("unique.period_seconds", "is needed when jobs that have ended count")

    def digest(self, task: str, payload: str) -> bytes:
        """What all that are the same have in common. ``payload`` is JSON text, whatever the order of its fields."""
        what = ["key", self.key] if self.key is not None else ["payload", json.loads(payload)]
        return hashlib.blake2b(json.dumps([task, *what], sort_keys=True).encode(), digest_size=16).digest()

    def counts(self, state: State | None, age: timedelta) -> bool:
        """Whether a job that was submitted ``age`` ago is in the way; ``state`` is None for one that is gone."""
        if self.period is not None and age >= self.period:
            return False
        states = self.states or (UNENDED if self.period is None else (*UNENDED, State.SUCCEEDED))
        return state in states
