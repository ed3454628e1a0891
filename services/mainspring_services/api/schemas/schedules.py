"""Schedules over HTTP."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from mainspring.domain.definition import MOST_FAILURES, ScheduleDefinition
from mainspring.domain.errors import InvalidInput
from mainspring.domain.firing import Misfire, Overlap
from mainspring.domain.job import payload_text
from mainspring.domain.reading import reading
from mainspring.runtime.schedule_lint import warnings_of
from mainspring.store.pool import Conn
from mainspring.store.schedules import StoredSchedule
from mainspring_services.api.schemas.common import Instant, Note, Number

MOST_PREVIEWED = 1000


class ScheduleIn(BaseModel):
    """A schedule to create or replace."""

    model_config = ConfigDict(extra="forbid")

    task: str
    payload: dict[str, Any] = Field(default_factory=dict)
    cron: str | None = Field(default=None, max_length=256)
    every_seconds: Number | None = Field(default=None, allow_inf_nan=False)
    at: Instant | None = None
    timezone: str = Field(default="UTC", max_length=100)
    jitter_seconds: Number = Field(default=0, ge=0, le=86_400, allow_inf_nan=False)
    misfire: Misfire = Misfire.FIRE_ONCE
    max_catchup: int = 100
    catchup_window_seconds: Number = Field(default=31_536_000, ge=0, le=316_224_000, allow_inf_nan=False)
    overlap: Overlap = Overlap.SKIP
    start_at: Instant | None = None
    end_at: Instant | None = None
    max_runs: int | None = Field(default=None, ge=1, le=2_000_000_000)
    paused: bool = False
    note: Note | None = None
    queue: str | None = None
    priority: int | None = Field(default=None, ge=0, le=9)
    tags: list[str] = Field(default_factory=list)
    calendars: list[str] = Field(default_factory=list, description="Names of calendars, on whose days it doesn't fire.")
    pause_after: int | None = Field(
        default=None,
        ge=1,
        le=MOST_FAILURES,
        strict=True,
        description="After so many failures in a row it pauses itself.",
    )

    def definition(self, name: str) -> ScheduleDefinition:
        """As the domain has it. Raises InvalidInput."""
        fields = self.model_dump(exclude={"payload", "jitter_seconds", "catchup_window_seconds", "tags", "calendars"})
        return ScheduleDefinition(
            name,
            payload=payload_text(self.payload),
            jitter=timedelta(seconds=self.jitter_seconds),
            catchup_window=timedelta(seconds=self.catchup_window_seconds),
            tags=tuple(self.tags),
            calendars=tuple(self.calendars),
            **fields,
        )


class NamedScheduleIn(ScheduleIn):
    """A schedule with its name in the body."""

    name: str


class PreviewIn(BaseModel):
    """What a preview is asked."""

    model_config = ConfigDict(extra="forbid")

    cron: str = Field(max_length=256)
    timezone: str = Field(default="UTC", max_length=100)
    start: Instant
    until: Instant | None = None
    count: int | None = Field(default=None, ge=1, le=MOST_PREVIEWED, strict=True)


class FireTimes(BaseModel):
    """The instants at which an expression fires."""

    fire_times: list[datetime]


class Schedule(BaseModel):
    """A schedule."""

    name: str
    reads: str | None = Field(description="When it fires, in words.")
    task: str
    payload: dict[str, Any]
    cron: str | None
    every_seconds: float | None
    at: datetime | None
    timezone: str
    jitter_seconds: float
    misfire: Misfire
    max_catchup: int
    catchup_window_seconds: float
    overlap: Overlap
    start_at: datetime | None
    end_at: datetime | None
    max_runs: int | None
    paused: bool
    pause_note: str | None = Field(description="Why it is paused.")
    note: str | None
    queue: str | None
    priority: int | None
    tags: list[str]
    calendars: list[str]
    pause_after: int | None
    next_nominal_at: datetime | None = Field(description="Its next nominal time; null when there is none.")
    broken: str | None = Field(description="Why it can't be evaluated; it is set aside until it is edited.")


class Warned(BaseModel):
    """Something about a schedule that is allowed and may not be meant."""

    code: str
    text: str


class SavedSchedule(Schedule):
    """A schedule as it was saved, with what may not be meant."""

    warnings: list[Warned]


class SchedulePage(BaseModel):
    """Schedules by name."""

    items: list[Schedule]
    next: str | None


class Fire(BaseModel):
    """What became of a nominal time, or of a run of them that were skipped together."""

    nominal_at: datetime
    last_nominal_at: datetime
    nominal_times: int
    job_id: UUID | None
    skipped: str | None = Field(description="Why there is no job.")
    planned_at: datetime | None = Field(description="When its job was meant to be made: nominal time and jitter.")
    lateness_seconds: float | None = Field(description="How much later it was made.")
    backfill: UUID | None = Field(description="The backfill that made it.")


class FirePage(BaseModel):
    """Fires, the latest first."""

    items: list[Fire]
    next: datetime | None


class LintedSchedule(BaseModel):
    """When a schedule fires, in words, and what of it may not be meant."""

    name: str
    reads: str | None
    warnings: list[Warned]


async def saved_out(connection: Conn, one: StoredSchedule) -> dict[str, Any]:
    """A stored schedule as a SavedSchedule."""
    warnings = await warnings_of(connection, one)
    return schedule_out(one) | {"warnings": [{"code": each.code, "text": each.text} for each in warnings]}


def schedule_out(one: StoredSchedule) -> dict[str, Any]:
    """A stored schedule as a Schedule."""
    row = {name: one.row[name] for name in Schedule.model_fields if name != "reads"}
    return row | {"payload": json.loads(row["payload"]), "reads": _reads(one)}


def _reads(one: StoredSchedule) -> str | None:
    try:
        return reading(one.definition())
    except InvalidInput:
        return None
