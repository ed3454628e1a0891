"""An attempt in its job's trace: begun with the claim, ended with the settlement, failed with the handler."""

from __future__ import annotations

from mainspring.domain.settlement import Verdict
from mainspring.domain.states import Outcome
from mainspring.domain.trace import JobTrace
from mainspring.telemetry import tracing
from mainspring.telemetry.tracing import Operation
from mainspring.worker.attempt import Attempt


def begin(attempt: Attempt) -> None:
    """Give the attempt its span; nothing when traces are off."""
    if not tracing.is_on():
        return
    job = attempt.job
    attempt.span = tracing.start(
        Operation.RUN,
        job.queue,
        JobTrace(job.id, job.traceparent),
        **{
            "messaging.message.id": str(job.id),
            "mainspring.task": job.task,
            "mainspring.attempt": job.attempt,
            "mainspring.fence": job.fence,
            "mainspring.schedule": job.schedule,
        },
    )


def end(attempt: Attempt, outcome: Outcome, verdict: Verdict | None = None) -> None:
    """Say how it ended, and what follows."""
    span = attempt.span
    if not span.is_recording():
        return
    span.set_attribute("mainspring.outcome", outcome.value)
    if verdict is not None:
        span.set_attribute("mainspring.state", verdict.state.value)
        span.set_attribute("mainspring.delay_seconds", verdict.delay.total_seconds())
        if verdict.error is not None and verdict.outcome is not Outcome.CANCELLED:
            tracing.fail(span, verdict.error.type, verdict.error.message, verdict.error.traceback)
    span.end()


def refuse(attempt: Attempt) -> None:
    """Say that the job belongs to a later attempt: whatever this one did was not written."""
    tracing.fail(attempt.span, "StaleFence", "the job belongs to a later attempt")
    attempt.span.end()
