"""Schedules over HTTP."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from mainspring.domain.definition import ScheduleDefinition
from mainspring.domain.firing import Misfire, Overlap
from mainspring.domain.job import payload_text
from mainspring.store.schedules import StoredSchedule


class ScheduleIn(BaseModel):
    """A schedule to create or replace."""

    model_config = ConfigDict(extra="forbid")

    task: str
    payload: dict[str, Any] = Field(default_factory=dict)
    cron: Any = None
    every_seconds: float | None = Field(default=None, allow_inf_nan=False)
    at: datetime | None = None
    timezone: Any = "UTC"
    jitter_seconds: float = Field(default=0, ge=0, le=86_400, allow_inf_nan=False)
    misfire: Misfire = Misfire.FIRE_ONCE
    max_catchup: int = 100
    catchup_window_seconds: float = Field(default=31_536_000, ge=0, le=316_224_000, allow_inf_nan=False)
    overlap: Overlap = Overlap.SKIP
    start_at: datetime | None = None
    end_at: datetime | None = None
    max_runs: int | None = Field(default=None, ge=1, le=2_000_000_000)
    paused: bool = False
    note: str | None = Field(default=None, max_length=1000)
    queue: str | None = None
    priority: int | None = Field(default=None, ge=0, le=9)
    tags: list[str] = Field(default_factory=list)

    def definition(self, name: str) -> ScheduleDefinition:
        """As the domain has it. Raises InvalidInput."""
        fields = self.model_dump(exclude={"payload", "jitter_seconds", "catchup_window_seconds", "tags"})
        return ScheduleDefinition(
            name,
            payload=payload_text(self.payload),
            jitter=timedelta(seconds=self.jitter_seconds),
            catchup_window=timedelta(seconds=self.catchup_window_seconds),
            tags=tuple(self.tags),
            **fields,
        )


class NamedScheduleIn(ScheduleIn):
    """A schedule with its name in the body."""

    name: str


def schedule_out(one: StoredSchedule) -> dict[str, Any]:
    """A schedule as the API shows it."""
    row = dict(one.row)
    row["payload"] = json.loads(row["payload"])
    for hidden in ("fires_at", "runs", "created_at", "updated_at"):
        row.pop(hidden)
    return {key: value.isoformat() if isinstance(value, datetime) else value for key, value in row.items()}
