"""A circuit: what several tasks depend on. When it fails too often their jobs are held, probed, and let go gently.

A closed circuit has a budget of failures. A failed attempt takes one from it; a successful one gives back so much that
the budget stays level while ``share`` of the attempts fail; a period in which nothing fails fills it. (The shape is
that of Finagle's RetryBudget and of gRPC's retry throttling, proposal A6, with the budget deciding about all attempts
and not about retries alone.) A failure that finds the budget used up opens the circuit: nothing of it starts for a
while. Then one job at a time is let through; each time as many have succeeded as may run at once, twice as many may. A
failure beyond what the successes allow opens it again, for twice as long.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from mainspring.domain.errors import InvalidInput
from mainspring.domain.job import check_name

#: Longer than this it doesn't stay open by itself.
LONGEST_HOLD = timedelta(minutes=10)
#: When so many may run at once and as many have succeeded, it is closed; and when it didn't open again for a period.
MOST_PROBES = 32
MOST_CIRCUITS = 100
#: The name of the limit that holds a circuit's jobs begins so.
LIMIT_PREFIX = "circuit."
#: A limit's name has at most 63 characters.
LONGEST_NAME = 55


class CircuitState(StrEnum):
    """Whether jobs of a circuit start."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


@dataclass(frozen=True, slots=True)
class CircuitTerms:
    """When a circuit opens, and for how long.

    More than ``failures`` in ``period_seconds``, of which more than ``share`` of the attempts: it opens, and after
    ``hold_seconds`` a job probes it. Raises InvalidInput.
    """

    failures: int = 10
    period_seconds: float = 60.0
    share: float = 0.5
    hold_seconds: float = 30.0

    def __post_init__(self) -> None:
        if not 1 <= self.failures <= 10_000:
            raise InvalidInput("failures", "must be from 1 to 10000")
        if not 0 < self.share < 1:
            raise InvalidInput("share", "must lie between 0 and 1")
        for name, seconds, most in (
            ("period_seconds", self.period_seconds, 86400.0),
            ("hold_seconds", self.hold_seconds, LONGEST_HOLD.total_seconds()),
        ):
            if not 0.1 <= seconds <= most:
                raise InvalidInput(name, f"must be from 0.1 to {most:g} seconds")

    @property
    def given_back(self) -> float:
        """What a successful attempt gives back to the budget."""
        return self.share / (1 - self.share)

    def refilled_in(self, span: timedelta) -> float:
        """What time gives back to it."""
        return span.total_seconds() * self.failures / self.period_seconds


class Signal(NamedTuple):
    """How an attempt on a circuit ended, and how long before that it began."""

    has_failed: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class Circuit:
    """A circuit as it stands; ``level`` is what was left of the budget at ``level_at``."""

    name: str
    terms: CircuitTerms
    level: float
    level_at: datetime
    #: Until then nothing starts, and from then on ``probes`` at once; None: it is closed.
    open_until: datetime | None = None
    opened_at: datetime | None = None
    probes: int = 1
    #: How many have succeeded since ``probes`` was raised.
    passed: int = 0
    #: How often it has opened since it was closed.
    openings: int = 0

    def state(self, now: datetime) -> CircuitState:
        """Whether its jobs start."""
        if self.open_until is None:
            return CircuitState.CLOSED
        return CircuitState.OPEN if now < self.open_until else CircuitState.HALF_OPEN

    def left(self, now: datetime) -> float:
        """What is left of the budget of failures."""
        if self.open_until is not None:
            return self.level
        return min(self.level + self.terms.refilled_in(now - self.level_at), float(self.terms.failures))

    def after(self, signals: Iterable[Signal], now: datetime) -> Circuit:
        """The circuit after these attempts have ended at ``now``."""
        circuit = replace(self, level=self.left(now), level_at=max(now, self.level_at))
        for signal in signals:
            circuit = circuit._heard(signal, now)
        return circuit

    def opened(self, now: datetime, hold: timedelta | None = None) -> Circuit:
        """Open from now on: for ``hold``, or for twice as long as the last time."""
        usual = timedelta(seconds=self.terms.hold_seconds) * 2 ** min(self.openings, 20)
        return replace(
            self,
            level=0.0,
            level_at=now,
            open_until=now + (hold or min(usual, LONGEST_HOLD)),
            opened_at=self.opened_at or now,
            probes=1,
            passed=0,
            openings=self.openings + 1,
        )

    def closed(self, now: datetime) -> Circuit:
        """Closed, with the whole budget."""
        return Circuit(self.name, self.terms, float(self.terms.failures), now)

    def _heard(self, signal: Signal, now: datetime) -> Circuit:
        if self.open_until is not None and now - timedelta(seconds=signal.seconds) < self.open_until:
            # It began before the first probe: it says nothing new.
            return self
        if signal.has_failed:
            return replace(self, level=self.level - 1) if self.level >= 1 else self.opened(now)
        circuit = replace(self, level=min(self.level + self.terms.given_back, float(self.terms.failures)))
        return circuit if self.open_until is None else circuit._passed(now)

    def _passed(self, now: datetime) -> Circuit:
        """One more probe has succeeded."""
        is_over = self.open_until is not None and (now - self.open_until).total_seconds() >= self.terms.period_seconds
        if is_over or (self.probes >= MOST_PROBES and self.passed + 1 >= self.probes):
            return self.closed(now)
        if self.passed + 1 < self.probes:
            return replace(self, passed=self.passed + 1)
        return replace(self, probes=self.probes * 2, passed=0)


def check_circuit(name: object) -> str:
    """A circuit's name. Raises InvalidInput."""
    checked = check_name("circuit", name)
    if len(checked) > LONGEST_NAME:
        raise InvalidInput("circuit", f"at most {LONGEST_NAME} characters")
    return checked
