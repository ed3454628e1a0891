"""Queues over HTTP."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from mainspring.domain.errors import InvalidInput
from mainspring.domain.limits import check_path
from mainspring.runtime.queue_apply import DEFAULTS
from mainspring_services.api.schemas.common import NameText, Number
from mainspring_services.api.schemas.jobs import RetryIn
from mainspring_services.api.schemas.limits import LimitIn
from mainspring_services.api.schemas.retention import QueueRetentionIn

MOST_WEIGHT = 1000
MOST_WEIGHTS = 1000
#: What null means for these is the default, which the row always has.
_NEVER_NULL = {name: DEFAULTS[name] for name in ("release_window", "fair_weights")}


class QueueIn(BaseModel):
    """A queue's settings; what is left out stays as it is."""

    model_config = ConfigDict(extra="forbid")

    release_window: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        strict=True,
        description="Jobs of it that may be in the broker at once; null is the default, 2000.",
    )
    concurrency: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        strict=True,
        description="Jobs of it that may hold a slot at once, over all workers; null lifts the limit.",
    )
    fair_by: str | None = Field(
        default=None,
        description="A place in the payload, such as customer.id, whose values take turns; null: the oldest is first.",
    )
    fair_weights: dict[str, Annotated[int, Field(ge=1, le=MOST_WEIGHT, strict=True)]] | None = Field(
        default=None, max_length=MOST_WEIGHTS, description="How many jobs a value has in a turn, when it isn't one."
    )
    default_priority: int | None = Field(
        default=None, ge=0, le=9, strict=True, description="Of jobs whose request says none; null lifts it."
    )
    default_timeout_seconds: Number | None = Field(
        default=None,
        gt=0,
        le=2_592_000,
        allow_inf_nan=False,
        description="Of jobs for which neither the request nor the task says one; null lifts it.",
    )
    default_retry: RetryIn | None = Field(default=None, description="Likewise, the retry policy.")
    default_expiry_seconds: Number | None = Field(
        default=None,
        gt=0,
        le=31_536_000,
        allow_inf_nan=False,
        description="A job that says no `expires_at` is dead when it has not started so long after its time; "
        "null lifts it.",
    )

    aging_seconds: Number | None = Field(
        default=None,
        ge=1,
        le=31_536_000,
        allow_inf_nan=False,
        description="A job that has waited so long is released as if it had the next higher priority, one more after "
        "the same time again; null: never. 300 for a new queue.",
    )

    most_waiting: int | None = Field(
        default=None,
        ge=1,
        le=10_000_000,
        strict=True,
        description="Beyond so many jobs that wait a submit gets 429, and nothing is stored; null lifts it.",
    )

    retention: QueueRetentionIn | None = Field(
        default=None, description="What it keeps for longer or less long than others; null: as they do."
    )

    def settings(self) -> dict[str, Any]:
        """What is to be set, by its name in the store, but for the concurrency. Raises InvalidInput."""
        check_path("fair_by", self.fair_by)
        for key in self.fair_weights or {}:
            if "\0" in key or any("\ud800" <= character <= "\udfff" for character in key):
                raise InvalidInput("fair_weights", "has a key that no payload can hold")
        given = self.model_dump(include=self.model_fields_set - {"concurrency", "default_retry", "retention"})
        if "retention" in self.model_fields_set:
            given["retention"] = (self.retention.retention().as_json() or None) if self.retention else None
        if "default_retry" in self.model_fields_set:
            given["default_retry"] = self.default_retry.policy().as_json() if self.default_retry else None
        return {name: _NEVER_NULL.get(name) if value is None else value for name, value in given.items()}


class Queue(BaseModel):
    """A queue."""

    name: str
    paused: bool
    note: str | None
    paused_at: datetime | None
    paused_by: str | None
    release_window: int
    concurrency: int | None
    fair_by: str | None
    fair_weights: dict[str, int]
    default_priority: int | None
    default_timeout_seconds: float | None
    default_retry: dict[str, Any] | None
    default_expiry_seconds: float | None
    aging_seconds: float | None
    most_waiting: int | None
    retention: dict[str, Any] | None


class Queues(BaseModel):
    """All queues by name."""

    items: list[Queue]
    next: None = None


class NamedQueueIn(QueueIn):
    """A queue of a file."""

    name: NameText

    def settings(self) -> dict[str, Any]:
        """As of a queue alone, with the concurrency. Raises InvalidInput."""
        found = super().settings()
        found.pop("name", None)
        return found | ({"concurrency": self.concurrency} if "concurrency" in self.model_fields_set else {})


class NamedLimitIn(LimitIn):
    """A limit of a file."""

    name: NameText


class QueuesIn(BaseModel):
    """A file of queues and limits."""

    model_config = ConfigDict(extra="forbid")

    queues: list[NamedQueueIn] = Field(default=[], max_length=500)
    limits: list[NamedLimitIn] = Field(default=[], max_length=1000)
    prune: bool = Field(default=False, description="Lift the limits that it doesn't name.")
    dry_run: bool = Field(default=False, description="Only say what would change.")
    digest: str | None = Field(default=None, description="Of what was shown: 409 when the difference is another.")
