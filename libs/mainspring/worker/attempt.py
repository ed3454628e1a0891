"""One execution of a job by this worker, from its claim to its settlement."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

from opentelemetry import trace
from opentelemetry.trace import Span

from mainspring.boot_clock import boot_time
from mainspring.broker.delivery import Delivery
from mainspring.domain.job import JobRef
from mainspring.domain.settlement import Ending, Standing
from mainspring.store.claims import ClaimedJob
from mainspring.telemetry import tracing

_keys = itertools.count(1)


@dataclass(slots=True, eq=False)
class Attempt:
    """A claimed job in this worker's hands."""

    job: ClaimedJob
    #: The message that brought it, and its reference in there.
    delivery: Delivery
    ref: JobRef
    #: Until this instant of the boot-time clock the lease is surely ours.
    trusted_until: float
    started_at: float = field(default_factory=boot_time)
    cancel_requested: bool = False
    #: Why the handler was told to stop, once it was; its own answer no longer counts then.
    stopped_by: Ending | None = None
    #: When the runner is killed if the handler has not ended.
    kill_at: float = float("inf")
    #: The stack of its handler when that was found to block its runner's loop.
    blocks_at: str | None = None
    #: In the job's trace; ended with the attempt.
    span: Span = trace.INVALID_SPAN
    #: The name of this attempt in its worker; and, once it was given to a runner, of that placement between the two.
    key: int = field(default_factory=_keys.__next__)
    placement: int = 0

    def place(self) -> int:
        """Give it a new name for another runner: an order that was taken back may still lie there to be read."""
        self.placement = next(_keys)
        return self.placement

    def seconds(self) -> float:
        """How long it has been running."""
        return boot_time() - self.started_at

    def standing(self, *, is_circuit_broken: bool = False) -> Standing:
        """What is left of the job's budget."""
        job = self.job
        return Standing(job.attempts_used, job.policy, job.hand_backs, self.cancel_requested, is_circuit_broken)

    def order(self) -> dict[str, Any]:
        """What the runner needs to run it, as JSON values."""
        job = self.job
        return {
            "key": self.placement,
            "id": str(job.id),
            "task": job.task,
            "queue": job.queue,
            "payload": job.payload,
            "attempt": job.attempt,
            "fence": job.fence,
            "claim_id": str(job.claim_id),
            "idempotency_key": job.idempotency_key,
            "schedule": job.schedule,
            "nominal_at": job.nominal_at.isoformat() if job.nominal_at else None,
            "traceparent": tracing.traceparent_of(self.span) or job.traceparent,
        }
