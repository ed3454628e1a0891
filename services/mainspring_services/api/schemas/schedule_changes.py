"""What changes schedules beyond one of them: files, filters, backfills, calendars."""

from __future__ import annotations

from datetime import datetime
from typing import Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, model_validator

from mainspring.runtime.backfill import MOST_PARALLEL
from mainspring.store.schedules import ScheduleFilter
from mainspring_services.api.schemas.common import Instant, NameText, Note, Word
from mainspring_services.api.schemas.schedules import NamedScheduleIn

MOST_APPLIED = 10_000


class SchedulesIn(BaseModel):
    """A file of schedules."""

    model_config = ConfigDict(extra="forbid")

    schedules: list[NamedScheduleIn] = Field(max_length=MOST_APPLIED)
    prune: bool = Field(default=False, description="Delete the schedules that it doesn't name.")
    dry_run: bool = Field(default=False, description="Only say what would change.")
    digest: str | None = Field(default=None, description="Of what was shown: 409 when the difference is another.")


class WhichIn(BaseModel):
    """Which schedules are meant: all that fit each field given; ``all`` where none is."""

    model_config = ConfigDict(extra="forbid")

    prefix: Word | None = Field(default=None, description="Of their names.")
    task: NameText | None = None
    queue: NameText | None = Field(default=None, description="As their definitions say it.")
    tag: Word | None = None
    all: bool = False
    note: Note | None = None

    @model_validator(mode="after")
    def _is_meant(self) -> Self:
        if self.all == any((self.prefix, self.task, self.queue, self.tag)):
            raise ValueError("give a prefix, task, queue or tag; or say all: true, and none of them")
        return self

    def which(self) -> ScheduleFilter:
        """As the store has it."""
        return ScheduleFilter(self.prefix, self.task, self.queue, self.tag)


class BulkOut(BaseModel):
    """The schedules that were changed, and why others couldn't be."""

    changed: list[str]
    refused: dict[str, str]


class BackfillIn(BaseModel):
    """The past nominal times to make jobs of."""

    model_config = ConfigDict(extra="forbid")

    start_at: Instant
    end_at: Instant = Field(description="Itself excluded.")
    parallel: int = Field(
        default=1, ge=1, le=MOST_PARALLEL, strict=True, description="Jobs live at once; 1: one after another."
    )


class BackfillOut(BaseModel):
    """A backfill."""

    id: UUID
    schedule: str
    start_at: datetime
    end_at: datetime
    parallel: int
    nominal_times: int
    next_nominal_at: datetime | None = Field(description="The next one to make a job of; null when all are made.")
    jobs: int = Field(description="Jobs made so far; a nominal time that had one already gets no second one.")
    state: str
    created_at: datetime
    finished_at: datetime | None


class BackfillPage(BaseModel):
    """A schedule's backfills, the latest first."""

    items: list[BackfillOut]
    next: None = None


class CalendarIn(BaseModel):
    """A calendar to create or replace."""

    model_config = ConfigDict(extra="forbid")

    days: list[str] = Field(description="2026-12-24, or 12-25 for each year.")
    note: Note | None = None


class CalendarOut(BaseModel):
    """A calendar."""

    name: str
    days: list[str]
    note: str | None
    updated_at: datetime


class CalendarPage(BaseModel):
    """Calendars by name."""

    items: list[CalendarOut]
    next: str | None
