"""Extending the leases of everything that runs here, in one statement a beat.

The trust in a lease counts from before the statement was sent. "Extended" renews it; "busy" means that the
row is locked by its own settlement, which a reclaim can't pass either; only "gone" stops the handler. A job
that outlasts ``handover`` seconds rests on its lease alone from a committed beat on: its message is settled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from mainspring.boot_clock import boot_time
from mainspring.domain.lease import LeaseTerms
from mainspring.domain.settlement import AttemptError, Ending
from mainspring.domain.states import Outcome
from mainspring.runtime.loop import Pass
from mainspring.store import leases
from mainspring.store.leases import Beat
from mainspring.store.pool import Database
from mainspring.telemetry import metrics
from mainspring.worker.attempt import Attempt
from mainspring.worker.slots import Slots


@dataclass(frozen=True, slots=True)
class LeaseKeeper:
    """The worker's heartbeat."""

    database: Database
    slots: Slots
    terms: LeaseTerms
    handover: float

    async def run_once(self) -> Pass:
        """Beat once for all attempts of this worker."""
        attempts = self.slots.attempts()
        if not attempts:
            self.slots.permit()
            return Pass()
        sent_at = boot_time()
        holds = [leases.Hold(one.job.id, one.job.fence, one.job.claim_id) for one in attempts]
        lease = timedelta(seconds=self.terms.lease)
        answers = await self.database.run(lambda connection: leases.extend(connection, holds, lease))
        for attempt in attempts:
            self._apply(attempt, answers.get(attempt.job.id, Beat.GONE), sent_at)
        self.slots.permit()
        await self._hand_over(attempts, answers)
        return Pass(done=len(attempts))

    def _apply(self, attempt: Attempt, beat: Beat, sent_at: float) -> None:
        if beat in (Beat.EXTENDED, Beat.CANCEL_REQUESTED):
            attempt.trusted_until = self.terms.trusted_until(sent_at)
        if beat is Beat.CANCEL_REQUESTED and not attempt.cancel_requested:
            attempt.cancel_requested = True
            self.slots.stop(attempt, Ending(Outcome.CANCELLED))
        if beat is Beat.GONE and attempt.stopped_by is None:
            metrics.LEASES_GONE.inc()
            error = AttemptError("LeaseLost", "the job belongs to a later attempt")
            self.slots.stop(attempt, Ending(Outcome.WORKER_LOST, error=error))

    async def _hand_over(self, attempts: Sequence[Attempt], answers: dict[UUID, Beat]) -> None:
        for attempt in attempts:
            is_held = answers.get(attempt.job.id) in (Beat.EXTENDED, Beat.CANCEL_REQUESTED)
            if is_held and attempt.seconds() > self.handover and attempt.ref in attempt.delivery.left:
                attempt.delivery.settle([attempt.ref])
                metrics.HANDED_OVER.inc()
