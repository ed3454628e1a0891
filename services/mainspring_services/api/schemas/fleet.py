"""Queues, workers and counts over HTTP."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from mainspring.domain.states import State


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


class Queue(BaseModel):
    """A queue."""

    name: str
    paused: bool
    note: str | None
    release_window: int
    concurrency: int | None


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


class Stats(BaseModel):
    """Live jobs by queue and state; those that have succeeded or were cancelled are not live."""

    items: list[Count]
