"""Workers and counts over HTTP."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from pydantic import BaseModel, Field

from mainspring.domain.states import State


class Worker(BaseModel):
    """A worker that lives."""

    id: UUID
    host: str
    pid: int
    version: str
    queues: list[str]
    tasks: list[str] = Field(description="That it runs: it knows them, and has the labels that they require.")
    labels: list[str]
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
