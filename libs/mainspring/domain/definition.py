"""What a person writes down to have a job run again and again, checked field by field."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from mainspring.domain.errors import InvalidInput
from mainspring.domain.firing import FiringRules, Misfire, Overlap
from mainspring.domain.job import JobRequest, check_instant, check_name
from mainspring.domain.schedule import Trigger, make_trigger, plan_jitter

YEAR = timedelta(days=365)
LONGEST_JITTER = timedelta(days=1)


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

    def __post_init__(self) -> None:
        check_name("name", self.name)
        # The job that a fire makes is checked here, since nobody would hear of it then.
        self.request()
        if not timedelta(0) <= self.jitter <= LONGEST_JITTER:
            raise InvalidInput("jitter_seconds", "must be from 0 to 86400")
        if self.max_runs is not None and self.max_runs < 1:
            raise InvalidInput("max_runs", "must be at least 1")
        for field in ("at", "start_at", "end_at"):
            check_instant(field, getattr(self, field))
        self.rules()

    def trigger(self, anchor: datetime) -> Trigger:
        """When it fires; ``anchor`` sets the phase of an interval without ``start_at``. Raises InvalidInput."""
        return make_trigger(
            cron=self.cron,
            every_seconds=self.every_seconds,
            at=self.at,
            timezone=self.timezone,
            anchor=self.start_at or anchor,
        )

    def rules(self) -> FiringRules:
        """Its bounds and misfire policy."""
        return FiringRules(
            misfire=self.misfire,
            max_catchup=self.max_catchup,
            catchup_window=self.catchup_window,
            start_at=self.start_at,
            end_at=self.end_at,
        )

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

    def fires_at(self, trigger: Trigger, nominal_at: datetime | None) -> datetime | None:
        """The nominal time plus its jitter: the same for every scheduler that asks."""
        if nominal_at is None:
            return None
        return nominal_at + plan_jitter(self.name, nominal_at, self.jitter, trigger.next_after(nominal_at))


def key_of_fire(schedule: str, nominal_at: datetime) -> str:
    """The idempotency key of the job that a nominal time makes."""
    instant = nominal_at.astimezone(UTC)
    return f"{schedule}:{instant.strftime('%Y-%m-%dT%H:%M:%S.%fZ').replace('.000000Z', 'Z')}"
