"""Bulk operations over HTTP."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from mainspring.domain.bulk import CANARY, FASTEST, SLOWEST, Action, BulkFilter, BulkOperation, BulkRequest, Canary
from mainspring.domain.states import State
from mainspring_services.api.schemas.common import Instant, NameText, Note, Number


class BulkFilterIn(BaseModel):
    """What a job, or a dead letter, must be or have; all that is given must be passed."""

    model_config = ConfigDict(extra="forbid")

    state: list[State] = Field(default_factory=list, description="One of these states. Of jobs, as all down to `tag`.")
    queue: NameText | None = Field(default=None, description="Of dead letters, too.")
    task: NameText | None = Field(default=None, description="Of dead letters, too.")
    schedule: NameText | None = None
    tag: Note | None = None
    reason: Note | None = Field(default=None, description="Of dead letters: `exhausted`, `permanent` or `expired`.")
    fingerprint: Note | None = Field(default=None, description="Of dead letters that died alike.")
    since: Instant | None = Field(default=None, description="Submitted, or dead, at this instant or later.")
    until: Instant | None = Field(default=None, description="Submitted, or dead, before this instant.")

    def filter(self) -> BulkFilter:
        """As the domain has it."""
        return BulkFilter(states=tuple(self.state), **self.model_dump(exclude={"state"}))


class CanaryIn(BaseModel):
    """Put shares of the dead jobs back to work one after another, and stop when too many fail again."""

    model_config = ConfigDict(extra="forbid")

    steps: list[Number] = Field(default=list(CANARY), description="Shares of all, rising; after the last come all.")
    most_failures: Number = Field(
        default=0.1, ge=0, lt=1, description="The share of first attempts that may fail. Beyond it the operation stops."
    )


class BulkIn(BaseModel):
    """One action on all that pass a filter."""

    model_config = ConfigDict(extra="forbid")

    action: Action = Field(
        description="On jobs that have not ended: `cancel`, `retry` (what retries is due now), `edit` (the priority). "
        "On dead letters: `redrive`, `discard`."
    )
    filter: BulkFilterIn = Field(default_factory=BulkFilterIn)
    all: bool = Field(default=False, strict=True, description="Without a filter: it is meant for all.")
    priority: int | None = Field(default=None, ge=0, le=9, strict=True, description="Of an `edit`.")
    per_second: Number | None = Field(
        default=None, ge=SLOWEST, le=FASTEST, allow_inf_nan=False, description="At most so many a second."
    )
    canary: CanaryIn | None = Field(default=None, description="Of a `redrive`.")
    note: Note | None = Field(default=None, description="Why, for those who look later.")
    dry_run: bool = Field(default=False, strict=True, description="Count, and change nothing.")

    def request(self) -> BulkRequest:
        """As the domain has it. Raises InvalidInput."""
        return BulkRequest(
            self.action,
            self.filter.filter(),
            is_for_all=self.all,
            priority=self.priority,
            per_second=self.per_second,
            canary=Canary(tuple(self.canary.steps), self.canary.most_failures) if self.canary else None,
            note=self.note,
        )


class BulkCount(BaseModel):
    """What an operation would be done to."""

    matched: int
    by_state: dict[str, int] = Field(description="Of jobs by state; of dead letters by kind.")


class BulkOut(BaseModel):
    """A bulk operation, and how far it is."""

    id: UUID
    action: Action
    filter: dict[str, Any]
    priority: int | None
    per_second: float | None
    canary: CanaryIn | None
    note: str | None
    author: str
    state: str = Field(description="`running`, `finished`, `stopped` (by itself), or `cancelled`.")
    reason: str | None = Field(description="Why it stopped by itself.")
    matched: int = Field(description="How many passed the filter when it began.")
    taken: int = Field(description="How many were looked at.")
    missed: int = Field(description="Those of them that had ended, or changed their state, by then: left as they were.")
    step: int = Field(description="Of a canary: the steps that are behind it.")
    succeeded: int = Field(description="Of a canary: jobs whose first attempt since then has succeeded;")
    failed: int = Field(description="has failed;")
    pending: int = Field(description="has not ended yet.")
    created_at: datetime
    finished_at: datetime | None


class BulkOperations(BaseModel):
    """Bulk operations, the latest first."""

    items: list[BulkOut]
    next: None = None


def bulk_out(one: BulkOperation) -> dict[str, Any]:
    """A stored operation as a BulkOut."""
    request, progress = one.request, one.progress
    given = request.filter.given()
    canary = request.canary
    return {
        "id": one.id,
        "action": request.action,
        "filter": {("state" if name == "states" else name): value for name, value in given.items()},
        "priority": request.priority,
        "per_second": request.per_second,
        "canary": {"steps": list(canary.steps), "most_failures": canary.most_failures} if canary else None,
        "note": request.note,
        "author": one.author,
        "state": one.state,
        "reason": one.reason,
        "matched": progress.matched,
        "taken": progress.taken,
        "missed": one.missed,
        "step": progress.step,
        "succeeded": progress.succeeded,
        "failed": progress.failed,
        "pending": progress.pending,
        "created_at": one.created_at,
        "finished_at": one.finished_at,
    }
