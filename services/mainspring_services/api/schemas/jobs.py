"""Jobs over HTTP."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from mainspring.domain.job import JobRequest, payload_text
from mainspring.domain.retry import RetryPolicy


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


class JobIn(BaseModel):
    """A job to submit."""

    model_config = ConfigDict(extra="forbid")

    task: str
    payload: dict[str, Any] = Field(default_factory=dict)
    queue: str | None = None
    priority: int | None = Field(default=None, strict=True)
    run_at: datetime | None = None
    delay_seconds: float | None = Field(default=None, ge=0, le=316_224_000, allow_inf_nan=False)
    timeout_seconds: float | None = Field(default=None, gt=0, le=2_592_000, allow_inf_nan=False)
    retry: RetryIn | None = None
    idempotency_key: str | None = None
    tags: list[str] = Field(default_factory=list)
    expires_at: datetime | None = None

    def request(self, header_key: str | None = None, traceparent: str | None = None) -> JobRequest:
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
            traceparent=traceparent,
        )


def job_out(row: Any) -> dict[str, Any]:
    """A row of the ``jobs`` view as the API shows it."""
    return {
        "id": str(row["id"]),
        "task": row["task"],
        "queue": row["queue"],
        "state": row["state"],
        "reason": row["reason"],
        "priority": row["priority"],
        "payload": _json(row["payload"]),
        "result": _json(row["result"]),
        "error": _json(row["error"]),
        "attempt": row["attempt"],
        "attempts_used": row["attempts_used"],
        "max_attempts": row["max_attempts"],
        "timeout_seconds": row["timeout_seconds"],
        "run_at": _instant(row["run_at"]),
        "due_at": _instant(row["due_at"]),
        "created_at": _instant(row["created_at"]),
        "started_at": _instant(row["started_at"]),
        "finished_at": _instant(row["finished_at"]),
        "idempotency_key": row["idempotency_key"],
        "tags": row["tags"],
        "schedule": row["schedule"],
        "nominal_at": _instant(row["nominal_at"]),
        "worker": str(row["worker"]) if row["worker"] else None,
        "trace_id": row["traceparent"].split("-")[1] if row["traceparent"] else None,
    }


def attempt_out(row: Any) -> dict[str, Any]:
    """A row of the attempts as the API shows it."""
    return {
        "attempt": row["attempt"],
        "fence": row["fence"],
        "outcome": row["outcome"],
        "worker": str(row["worker"]) if row["worker"] else None,
        "started_at": _instant(row["started_at"]),
        "ended_at": _instant(row["ended_at"]),
        "error": _json(row["error"]),
    }


def event_out(row: Any) -> dict[str, Any]:
    """A row of the events as the API shows it."""
    return {
        "at": _instant(row["at"]),
        "event": row["event"],
        "author": row["author"],
        "details": _json(row["details"]),
    }


def _json(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def _instant(instant: datetime | None) -> str | None:
    return instant.isoformat() if instant else None
