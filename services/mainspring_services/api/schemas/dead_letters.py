"""Dead letters over HTTP."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from mainspring.store.dead_letters import DeadLetterFilter
from mainspring_services.api.schemas.common import NameText, Note
from mainspring_services.api.schemas.jobs import JobError


class DeadLetter(BaseModel):
    """A job that ended without success, or a message that no job stands behind."""

    id: UUID = Field(description="Of a job: the job's id.")
    kind: str
    job_id: UUID | None
    queue: str | None
    task: str | None
    reason: str
    outcome: str | None
    error: JobError | None
    fingerprint: str = Field(description="The same for all that died alike.")
    died_at: datetime
    alerted_at: datetime | None


class DeadLetterPage(BaseModel):
    """Dead letters, the newest first."""

    items: list[DeadLetter]
    next: str | None


class DeadLetterGroup(BaseModel):
    """Dead letters that died alike."""

    fingerprint: str
    kind: str
    queue: str | None
    task: str | None
    reason: str
    letters: int
    first_died_at: datetime
    last_died_at: datetime
    error: JobError | None = Field(description="Of the one that died last.")


class DeadLetterGroups(BaseModel):
    """Groups of dead letters, the largest first."""

    items: list[DeadLetterGroup]
    next: None = None


class _Filters(BaseModel):
    model_config = ConfigDict(extra="forbid")

    queue: NameText | None = None
    task: NameText | None = None
    reason: Note | None = None
    fingerprint: Note | None = None

    def filter(self) -> DeadLetterFilter:
        """As the store has it."""
        return DeadLetterFilter(self.queue, self.task, self.reason, self.fingerprint)


class DeadLetterQuery(_Filters):
    """Which dead letters to list; all filters must be passed."""

    cursor: str | None = Field(default=None, max_length=100, description="The `next` of the page before.")
    limit: int = Field(default=100, ge=1, le=1000)


class RedriveIn(_Filters):
    """Which dead jobs to put back to work: those that pass all filters, the oldest first."""

    limit: int = Field(default=1000, ge=1, le=10_000, strict=True)


class Redriven(BaseModel):
    """How many jobs are back at work."""

    redriven: int


class DiscardIn(BaseModel):
    """Why nothing is to be done."""

    model_config = ConfigDict(extra="forbid")

    why: Note | None = None


def letter_out(row: Any) -> dict[str, Any]:
    """A row of the dead letters, or of their groups."""
    return {**dict(row), "error": json.loads(row["error"]) if row["error"] else None}
