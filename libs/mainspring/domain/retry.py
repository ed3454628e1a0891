"""When a failed job runs again: exponential backoff with equal jitter, capped; or a list of delays.

This is the one place where a retry's delay is decided. Equal jitter draws from [d/2, d] (M. Brooker,
"Exponential Backoff And Jitter", AWS Architecture Blog, 2015): it spreads a herd, and a delay never
shrinks to nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from mainspring.domain.errors import LONGEST_DELAY, InvalidInput

MOST_ATTEMPTS = 1000
LONGEST_SECONDS = LONGEST_DELAY.total_seconds()
#: Less than a timedelta holds: such a base is no wait at all, and its powers could overflow below the cap.
_SHORTEST_BASE = 1e-6


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how late a failed job runs again.

    ``max_attempts`` counts every start, the first one too. The n-th retry waits ``base`` × ``factor``^(n-1)
    seconds, at most ``cap``; ``delays``, when given, lists the waits instead (the last one repeats).
    Raises InvalidInput naming ``retry.<field>`` for a value out of range.
    """

    max_attempts: int = 4
    base: float = 1.0
    factor: float = 10.0
    cap: float = 60.0
    delays: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        _whole("max_attempts", self.max_attempts, 1, MOST_ATTEMPTS)
        _number("base", self.base, 0, LONGEST_SECONDS)
        _number("factor", self.factor, 1, 1000)
        _number("cap", self.cap, 0, LONGEST_SECONDS)
        for index, delay in enumerate(self.delays):
            _number(f"delays.{index}", delay, 0, LONGEST_SECONDS)

    def delay_before(self, retry: int, jitter: float) -> timedelta:
        """The wait before retry number ``retry`` (1 is the first); ``jitter`` is drawn from [0, 1)."""
        ceiling = self.ceiling_before(retry)
        return timedelta(seconds=ceiling / 2 + ceiling / 2 * jitter)

    def ceiling_before(self, retry: int) -> float:
        """The wait in seconds before jitter shortens it."""
        if self.delays:
            return self.delays[min(max(retry, 1), len(self.delays)) - 1]
        if self.base < _SHORTEST_BASE or self.factor == 1:
            return min(self.base, self.cap)
        # In logarithms, since factor ** retry overflows a float from the 1,024th doubling on.
        exponent = math.log(self.base) + max(retry - 1, 0) * math.log(self.factor)
        if self.cap <= 0 or exponent >= math.log(self.cap):
            return self.cap
        return min(float(self.base * self.factor ** max(retry - 1, 0)), self.cap)

    def as_json(self) -> dict[str, Any]:
        """The policy as it is stored with a job."""
        fields: dict[str, Any] = {
            "max_attempts": self.max_attempts,
            "base": self.base,
            "factor": self.factor,
            "cap": self.cap,
        }
        return fields | ({"delays": list(self.delays)} if self.delays else {})


def policy_from(stored: Mapping[str, Any] | None) -> RetryPolicy:
    """Read a stored policy; fields that are missing take their defaults. Raises InvalidInput."""
    fields = dict(stored or {})
    unknown = fields.keys() - {"max_attempts", "base", "factor", "cap", "delays"}
    if unknown:
        raise InvalidInput(f"retry.{min(unknown)}", "is not a field of a retry policy")
    delays = fields.pop("delays", None) or ()
    if not isinstance(delays, list | tuple):
        raise InvalidInput("retry.delays", "must be a list of seconds")
    return RetryPolicy(delays=tuple(delays), **fields)


def _whole(field: str, value: object, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidInput(f"retry.{field}", f"must be a whole number from {least} to {most}")


def _number(field: str, value: object, least: float, most: float) -> None:
    # The comparison is also false for NaN.
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise InvalidInput(
            f"retry.{field}",
            f"must be a number of {'seconds ' if field != 'factor' else ''}from {least:g} to {most:g}",
        )


def reconnect_delay(failures: int, jitter: float, longest: float = 5.0) -> float:
    """Seconds to wait after so many failures in a row to reach a server: from 0.1, doubling, capped."""
    ceiling: float = min(0.1 * 2 ** min(failures, 10), longest)
    return ceiling / 2 + ceiling / 2 * jitter


#: The policy of a task that names none: retries after 1, 10 and 60 s.
DEFAULT = RetryPolicy()
