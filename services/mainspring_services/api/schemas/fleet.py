"""Queues, workers and counts over HTTP."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from mainspring.domain.states import State
from mainspring_services.api.schemas.jobs import RetryIn


class QueueIn(BaseModel):
    """A queue's settings; what is left out stays as it is."""

    model_config = ConfigDict(extra="forbid")

    release_window: int | None = Field(
        default=None, ge=1, le=1_000_000, strict=True, description="Jobs of it that may be in the broker at once."
    )
    concurrency: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        strict=True,
        description="Jobs of it that may hold a slot at once, over all workers; null lifts the limit.",
    )
    default_priority: int | None = Field(
        default=None, ge=0, le=9, strict=True, description="Of jobs whose request says none; null lifts it."
    )
    default_timeout_seconds: float | None = Field(
        default=None,
        gt=0,
        le=2_592_000,
        allow_inf_nan=False,
        description="Of jobs for which neither the request nor the task says one; null lifts it.",
    )
    default_retry: RetryIn | None = Field(default=None, description="Likewise, the retry policy.")

    def defaults(self) -> dict[str, Any]:
        """The defaults that are to be set, by their names in the store. Raises InvalidInput."""
        found = {
            "priority": self.default_priority,
            "timeout_seconds": self.default_timeout_seconds,
            "retry": json.dumps(self.default_retry.policy().as_json()) if self.default_retry else None,
        }
        return {name: value for name, value in found.items() if f"default_{name}" in self.model_fields_set}


class Queue(BaseModel):
    """A queue."""

    name: str
    paused: bool
    note: str | None
    release_window: int
    concurrency: int | None
    default_priority: int | None
    default_timeout_seconds: float | None
    default_retry: dict[str, Any] | None


class Queues(BaseModel):
    """All queues by name."""

    items: list[Queue]
    next: None = None


class Worker(BaseModel):
    """A worker that lives."""

    id: UUID
    host: str
    pid: int
    version: str
    queues: list[str]
    tasks: list[str]
    slots: int
    free_slots: int
    started_at: datetime
    beat_at: datetime


class Workers(BaseModel):
    """The workers that live."""

    items: list[Worker]
    next: None = None


class Count(BaseModel):
    """How many live jobs a queue has in a state."""

    queue: str
    state: State
    jobs: int
    oldest_due_at: datetime


class Leader(BaseModel):
    """The scheduler that has the leader's duties."""

    holder: UUID
    term: int = Field(description="Grows by one with each new holder.")
    taken_at: datetime | None
    age_seconds: float | None = Field(description="For how long it has led.")
    expires_at: datetime = Field(description="When another may take over, unless it is renewed.")


class Stats(BaseModel):
    """Live jobs by queue and state; those that have succeeded or were cancelled are not live."""

    items: list[Count]
    leader: Leader | None
