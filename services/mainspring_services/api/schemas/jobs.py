"""Jobs over HTTP."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from mainspring.domain.errors import InvalidInput
from mainspring.domain.job import JobRequest, payload_text
from mainspring.domain.retry import RetryPolicy
from mainspring.domain.states import Outcome, State
from mainspring.domain.trace import JobTrace
from mainspring.domain.unique import LONGEST_PERIOD, Then, Unique
from mainspring.store.job_lists import JobFilter
from mainspring.store.jobs import JobEdit
from mainspring_services.api.schemas.common import Instant, NameText, Note, Number

MOST_IN_BATCH = 10_000


class RetryIn(BaseModel):
    """A retry policy; what is left out takes its default."""

    model_config = ConfigDict(extra="forbid", strict=True)

    max_attempts: int = 4
    base: float = 1.0
    factor: float = 10.0
    cap: float = 60.0
    delays: list[float] = Field(default_factory=list)

    def policy(self) -> RetryPolicy:
        """As the domain has it. Raises InvalidInput."""
        return RetryPolicy(self.max_attempts, self.base, self.factor, self.cap, tuple(self.delays))


class UniqueIn(BaseModel):
    """What makes a job the same as another, and what its submit does then."""

    model_config = ConfigDict(extra="forbid")

    key: str | None = Field(
        default=None, description="Jobs of the task with this key are the same; else equal payloads."
    )
    period_seconds: Number | None = Field(
        default=None,
        allow_inf_nan=False,
        description="A job counts for so long after its submission; without it, until it has ended.",
    )
    states: list[State] = Field(
        default=[], description="The states in which it counts; without them all in which it has not ended."
    )
    then: Then = Field(
        default=Then.KEEP,
        description="`keep`: the job that is there is the answer. `replace`: if it waits it takes the new payload and "
        "priority. `postpone`: and the new time.",
    )

    def unique(self) -> Unique:
        """As the domain has it. Raises InvalidInput."""
        if self.period_seconds is not None and not 1 <= self.period_seconds <= LONGEST_PERIOD.total_seconds():
            raise InvalidInput("unique.period_seconds", f"must be from 1 to {LONGEST_PERIOD.total_seconds():g} seconds")
        period = timedelta(seconds=self.period_seconds) if self.period_seconds is not None else None
        return Unique(self.key, period, tuple(self.states), self.then)


class JobIn(BaseModel):
    """A job to submit."""

    model_config = ConfigDict(extra="forbid")

    task: str
    payload: dict[str, Any] = Field(default_factory=dict)
    queue: str | None = None
    priority: int | None = Field(default=None, strict=True)
    run_at: Instant | None = None
    delay_seconds: Number | None = Field(default=None, ge=0, le=316_224_000, allow_inf_nan=False)
    timeout_seconds: Number | None = Field(default=None, gt=0, le=2_592_000, allow_inf_nan=False)
    retry: RetryIn | None = None
    idempotency_key: str | None = None
    tags: list[str] = Field(default_factory=list)
    expires_at: Instant | None = None
    unique: UniqueIn | None = None

    def request(self, header_key: str | None = None) -> JobRequest:
        """As the domain has it. Raises InvalidInput."""
        return JobRequest(
            self.task,
            payload_text(self.payload),
            queue=self.queue,
            priority=self.priority,
            run_at=self.run_at,
            delay=timedelta(seconds=self.delay_seconds) if self.delay_seconds is not None else None,
            timeout=timedelta(seconds=self.timeout_seconds) if self.timeout_seconds is not None else None,
            retry=self.retry.policy() if self.retry else None,
            idempotency_key=self.idempotency_key if self.idempotency_key is not None else header_key,
            tags=tuple(self.tags),
            expires_at=self.expires_at,
            unique=self.unique.unique() if self.unique else None,
        )


class JobEditIn(BaseModel):
    """What is to change of a waiting job; what is left out stays."""

    model_config = ConfigDict(extra="forbid")

    priority: int | None = Field(default=None, strict=True)
    run_at: Instant | None = None
    payload: dict[str, Any] | None = Field(default=None, description="The whole payload anew.")

    def edit(self) -> JobEdit:
        """As the store has it, checked as a submit is. Raises InvalidInput."""
        if self.priority is None and self.run_at is None and self.payload is None:
            raise InvalidInput("priority", "give at least one of priority, run_at and payload")
        payload = None if self.payload is None else payload_text(self.payload)
        JobRequest("t", priority=self.priority, run_at=self.run_at)
        return JobEdit(self.priority, self.run_at, payload)


class NewJobs(BaseModel):
    """Jobs to submit together, all or none."""

    model_config = ConfigDict(extra="forbid")

    jobs: list[JobIn] = Field(min_length=1, max_length=MOST_IN_BATCH)


class JobError(BaseModel):
    """Why an attempt failed."""

    type: str
    message: str
    traceback: str


class JobQuery(BaseModel):
    """Which jobs to list; all filters must be passed."""

    model_config = ConfigDict(extra="forbid")

    state: list[State] = Field(default_factory=list, description="One of these states.")
    queue: NameText | None = None
    task: NameText | None = None
    schedule: NameText | None = None
    tag: Note | None = None
    since: Instant | None = Field(default=None, description="Submitted at this instant or later.")
    until: Instant | None = Field(default=None, description="Submitted before this instant.")
    cursor: UUID | None = Field(default=None, description="The `next` of the page before.")
    limit: int = Field(default=100, ge=1, le=1000)

    def filter(self) -> JobFilter:
        """As the store has it. Raises InvalidInput."""
        return JobFilter(tuple(self.state), self.queue, self.task, self.schedule, self.tag, self.since, self.until)


class Job(BaseModel):
    """A job."""

    id: UUID
    task: str
    queue: str
    state: State
    reason: str | None
    priority: int
    payload: dict[str, Any]
    result: Any
    error: JobError | None = Field(description="Of the last attempt that failed; null once the job has succeeded.")
    attempt: int = Field(description="How many attempts have begun.")
    attempts_used: int = Field(description="How many of them count against `max_attempts`.")
    max_attempts: int
    timeout_seconds: float
    run_at: datetime
    due_at: datetime
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    idempotency_key: str
    tags: list[str]
    schedule: str | None
    nominal_at: datetime | None
    worker: UUID | None
    trace_id: str = Field(description="Of the caller's trace; without one, the job's id is the id of its trace.")


class Attempt(BaseModel):
    """An attempt that has ended."""

    attempt: int
    fence: int
    outcome: Outcome
    worker: UUID | None
    started_at: datetime | None
    ended_at: datetime
    error: JobError | None


class JobEvent(BaseModel):
    """A turn off the straight path, or a person's action."""

    at: datetime
    event: str
    author: str | None
    details: dict[str, Any]


class JobWithHistory(Job):
    """A job with its attempts and events."""

    attempts: list[Attempt]
    events: list[JobEvent]


class JobPage(BaseModel):
    """Jobs, the newest first."""

    items: list[Job]
    next: str | None


class JobList(BaseModel):
    """Jobs that were accepted together, in the order of the request."""

    jobs: list[Job]


class JobResult(BaseModel):
    """What became of a job."""

    id: UUID
    state: State
    reason: str | None
    result: Any
    error: JobError | None


class Obstacle(BaseModel):
    """One thing that stands before a job."""

    kind: str = Field(
        description="`not_due`, `retry`, `returned`, `overlap`, `queue_paused`, `backing_off`, `no_worker`, `no_slot`, "
        "`concurrency`, `rate`, `ahead`, `on_its_way`, or `running`."
    )
    message: str
    estimate_seconds: float | None = Field(description="Until it is gone, where that can be told.")
    details: dict[str, Any] = Field(description="Its figures.")


class JobWhy(BaseModel):
    """Why a job isn't running."""

    id: UUID
    state: State
    blockers: list[Obstacle] = Field(description="In the order in which they have to go away.")


def job_out(row: Any) -> dict[str, Any]:
    """A row of the ``jobs`` view as a Job."""
    return {
        **{name: row[name] for name in Job.model_fields if name not in {"payload", "result", "error", "trace_id"}},
        **{name: _json(row[name]) for name in ("payload", "result", "error")},
        "trace_id": JobTrace(row["id"], row["traceparent"]).trace_id,
    }


def attempt_out(row: Any) -> dict[str, Any]:
    """A row of the attempts as an Attempt."""
    return {**{name: row[name] for name in Attempt.model_fields}, "error": _json(row["error"])}


def event_out(row: Any) -> dict[str, Any]:
    """A row of the events as a JobEvent."""
    return {**{name: row[name] for name in JobEvent.model_fields}, "details": _json(row["details"])}


def _json(text: str | None) -> Any:
    return None if text is None else json.loads(text)
