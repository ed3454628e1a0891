"""What follows the end of an attempt: a pure decision, written by the store, acted on by the broker.

An attempt's ending (what happened) and the job's standing (what was budgeted) give a verdict: the next
state, its delay, and whether the attempt counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from mainspring.domain.retry import RetryPolicy
from mainspring.domain.states import Outcome, Reason, State

#: Longer delays wait in Postgres: the broker is no database.
LONGEST_LADDER_DELAY = timedelta(minutes=15)
#: From this many hand-backs in a row on, a hand-back counts as an attempt.
FREE_HAND_BACKS = 9


@dataclass(frozen=True, slots=True)
class AttemptError:
    """Why an attempt failed: the error's type, a bounded message, a bounded traceback."""

    type: str
    message: str
    traceback: str = ""

    def as_json(self) -> dict[str, str]:
        """The error as the API shows it."""
        return {"type": self.type, "message": self.message, "traceback": self.traceback}


@dataclass(frozen=True, slots=True)
class Ending:
    """How one attempt ended, as seen by whoever saw it end."""

    outcome: Outcome
    result: str | None = None
    error: AttemptError | None = None
    is_permanent: bool = False
    delay: timedelta | None = None
    #: The runner or worker died under it: the next attempt runs alone, so that neighbours don't pay.
    run_alone: bool = False


@dataclass(frozen=True, slots=True)
class Standing:
    """What a job has used of its budget, this attempt included."""

    attempts_used: int
    policy: RetryPolicy
    hand_backs: int = 0
    cancel_requested: bool = False
    #: What it depends on fails anyway (``domain.circuit``): its failure isn't its own.
    is_circuit_broken: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """The next state of a job, and what is to be written with it."""

    state: State
    outcome: Outcome
    delay: timedelta = timedelta(0)
    reason: Reason | None = None
    counts: bool = True
    run_alone: bool = False
    error: AttemptError | None = None
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def goes_to_ladder(self) -> bool:
        """True when a message with the new ticket must enter the delay ladder."""
        return self.state is State.RETRYING


def decide(ending: Ending, standing: Standing, jitter: float) -> Verdict:
    """Decide what follows an attempt that did not succeed. ``jitter`` is drawn from [0, 1)."""
    if standing.cancel_requested or ending.outcome is Outcome.CANCELLED:
        return Verdict(State.CANCELLED, Outcome.CANCELLED, error=ending.error)
    if ending.outcome in (Outcome.HANDED_BACK, Outcome.SNOOZED) and standing.hand_backs < FREE_HAND_BACKS:
        return Verdict(
            State.SCHEDULED,
            ending.outcome,
            delay=ending.delay or timedelta(0),
            counts=False,
            run_alone=ending.run_alone,
        )
    if standing.is_circuit_broken and not ending.is_permanent:
        delay = _delay(ending, standing, jitter)
        return Verdict(State.SCHEDULED, ending.outcome, delay=delay, counts=False, error=ending.error)
    if ending.is_permanent:
        return Verdict(State.DEAD, ending.outcome, reason=Reason.PERMANENT, error=ending.error)
    if standing.attempts_used >= standing.policy.max_attempts:
        return Verdict(State.DEAD, ending.outcome, reason=Reason.EXHAUSTED, error=ending.error)
    return _retry(ending, standing, jitter)


def _retry(ending: Ending, standing: Standing, jitter: float) -> Verdict:
    delay = _delay(ending, standing, jitter)
    state = State.RETRYING if delay <= LONGEST_LADDER_DELAY else State.SCHEDULED
    return Verdict(state, ending.outcome, delay=delay, run_alone=ending.run_alone, error=ending.error)


def _delay(ending: Ending, standing: Standing, jitter: float) -> timedelta:
    """The policy's, or what the handler asked for if that is longer."""
    backoff = standing.policy.delay_before(standing.attempts_used, jitter)
    return max(backoff, ending.delay) if ending.delay is not None else backoff
