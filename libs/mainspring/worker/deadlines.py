"""Enforcing ends: a handler that overruns its timeout or doesn't obey a stop loses its runner."""

from __future__ import annotations

from dataclasses import dataclass

from mainspring.boot_clock import boot_time
from mainspring.domain.settlement import AttemptError, Ending
from mainspring.domain.states import Outcome
from mainspring.runtime.loop import Pass
from mainspring.worker.attempt import Attempt
from mainspring.worker.slots import Slots

#: How often to look while something runs.
LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Looks at every attempt, again and again: the one place where a deadline is enforced."""

    slots: Slots

    async def run_once(self) -> Pass:
        """Stop what is over time or no longer trusted; kill what was told to stop and didn't."""
        now = boot_time()
        ended = 0
        attempts = self.slots.attempts()
        for attempt in attempts:
            ending = self._overrun(attempt, now)
            if ending is not None:
                self.slots.stop(attempt, ending)
                ended += 1
            if now > attempt.kill_at:
                attempt.kill_at = float("inf")
                self.slots.kill(attempt)
        return Pass(done=ended, wait=LOOK_SECONDS if attempts else None)

    def _overrun(self, attempt: Attempt, now: float) -> Ending | None:
        if attempt.stopped_by is not None:
            return None
        limit = attempt.job.timeout.total_seconds()
        if attempt.seconds() > limit:
            if self.slots.hangs_on_another(attempt):
                return Ending(Outcome.HANDED_BACK)
            return Ending(Outcome.TIMED_OUT, error=AttemptError("Timeout", f"not done after {limit:g} s"))
        if now > attempt.trusted_until:
            error = AttemptError("LeaseLost", "the lease could not be extended in time")
            return Ending(Outcome.WORKER_LOST, error=error)
        return None
