"""What a person writes down to have a job run again and again, checked field by field."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from mainspring.domain.calendar import without_days
from mainspring.domain.errors import InvalidInput
from mainspring.domain.firing import FiringRules, Misfire, Overlap
from mainspring.domain.job import JobRequest, check_instant, check_name
from mainspring.domain.schedule import Trigger, make_trigger
from mainspring.domain.timetable import Timetable, firing_rules

YEAR = timedelta(days=365)
LONGEST_JITTER = timedelta(days=1)
MOST_CALENDARS = 10
MOST_FAILURES = 1000


@dataclass(frozen=True, slots=True)
class ScheduleDefinition:
    """A schedule. Exactly one of ``cron``, ``every_seconds`` and ``at`` is given; ``payload`` is JSON text.

    Raises InvalidInput naming the field.
    """

    name: str
    task: str
    payload: str = "{}"
    cron: str | None = None
    every_seconds: float | None = None
    at: datetime | None = None
    timezone: str = "UTC"
    jitter: timedelta = timedelta(0)
    misfire: Misfire = Misfire.FIRE_ONCE
    max_catchup: int = 100
    catchup_window: timedelta = YEAR
    overlap: Overlap = Overlap.SKIP
    start_at: datetime | None = None
    end_at: datetime | None = None
    max_runs: int | None = None
    paused: bool = False
    note: str | None = None
    queue: str | None = None
    priority: int | None = None
    tags: tuple[str, ...] = ()
    #: Names of calendars, on whose days it doesn't fire.
    calendars: tuple[str, ...] = ()
    #: After so many failures in a row it pauses itself; None: never.
    pause_after: int | None = None

    def __post_init__(self) -> None:
        check_name("name", self.name)
        # The job that a fire makes is checked here, since nobody would hear of it then.
        self.request()
        if not timedelta(0) <= self.jitter <= LONGEST_JITTER:
            raise InvalidInput("jitter_seconds", "must be from 0 to 86400")
        if self.max_runs is not None and self.max_runs < 1:
            raise InvalidInput("max_runs", "must be at least 1")
        if self.pause_after is not None and not 1 <= self.pause_after <= MOST_FAILURES:
            raise InvalidInput("pause_after", f"must be from 1 to {MOST_FAILURES}")
        if len(self.calendars) > MOST_CALENDARS:
            raise InvalidInput("calendars", f"at most {MOST_CALENDARS} are allowed")
        for index, calendar in enumerate(self.calendars):
            check_name(f"calendars.{index}", calendar)
        for field in ("at", "start_at", "end_at"):
            check_instant(field, getattr(self, field))
        self._rules()

    def timetable(self, anchor: datetime, excluded_days: Sequence[str] = ()) -> Timetable:
        """When it fires, but for the days of its calendars, and by which rules.

        ``anchor`` sets the phase of an interval without ``start_at``. Raises InvalidInput.
        """
        trigger = make_trigger(
            cron=self.cron,
            every_seconds=self.every_seconds,
            at=self.at,
            timezone=self.timezone,
            anchor=self.start_at or anchor,
        )
        return Timetable(self.name, without_days(trigger, excluded_days, self.timezone), self._rules(), self.jitter)

    def trigger(self, anchor: datetime, excluded_days: Sequence[str] = ()) -> Trigger:
        """The trigger of its ``timetable``."""
        return self.timetable(anchor, excluded_days).trigger

    def _rules(self) -> FiringRules:
        return firing_rules(self.misfire, self.max_catchup, self.catchup_window, self.start_at, self.end_at)

    def fires_like(self, other: ScheduleDefinition) -> bool:
        """Whether both have the same nominal times, as far as their own fields say."""
        return _when(self) == _when(other)

    def request(self, nominal_at: datetime | None = None, traceparent: str | None = None) -> JobRequest:
        """The job that it makes: for a nominal time, or beside them when a person triggers it."""
        return JobRequest(
            self.task,
            self.payload,
            queue=self.queue,
            priority=self.priority,
            idempotency_key=key_of_fire(self.name, nominal_at) if nominal_at else None,
            tags=self.tags,
            schedule=self.name,
            nominal_at=nominal_at,
            traceparent=traceparent,
        )


def _when(one: ScheduleDefinition) -> tuple[object, ...]:
    return one.cron, one.every_seconds, one.at, one.timezone, one.start_at, one.end_at, one.calendars


def as_fields(one: ScheduleDefinition) -> dict[str, Any]:
    """A definition as JSON values, by the names that the HTTP API and a file of schedules have for its fields."""
    instants = {name: getattr(one, name) for name in ("at", "start_at", "end_at")}
    return {
        "task": one.task,
        "payload": json.loads(one.payload),
        "cron": one.cron,
        "every_seconds": one.every_seconds,
        "timezone": one.timezone,
        "jitter_seconds": one.jitter.total_seconds(),
        "misfire": one.misfire.value,
        "max_catchup": one.max_catchup,
        "catchup_window_seconds": one.catchup_window.total_seconds(),
        "overlap": one.overlap.value,
        "max_runs": one.max_runs,
        "paused": one.paused,
        "note": one.note,
        "queue": one.queue,
        "priority": one.priority,
        "tags": list(one.tags),
        "calendars": list(one.calendars),
        "pause_after": one.pause_after,
        **{name: instant.astimezone(UTC).isoformat() if instant else None for name, instant in instants.items()},
    }


def key_of_fire(schedule: str, nominal_at: datetime) -> str:
    """The idempotency key of the job that a nominal time makes."""
    return f"{schedule}:{_utc_text(nominal_at)}"


@lru_cache(maxsize=1024)
def _utc_text(instant: datetime) -> str:
    return f"{instant.astimezone(UTC).replace(tzinfo=None).isoformat()}Z"
