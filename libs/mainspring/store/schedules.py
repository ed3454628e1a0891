"""Schedules and their fires. Whoever changes one holds its row's lock: firing, editing, pausing, triggering."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from mainspring.domain.definition import ScheduleDefinition
from mainspring.domain.firing import FiringPlan, Misfire, Overlap
from mainspring.store.pool import Conn
from mainspring.store.sql import load
from mainspring.store.wakeups import CANCEL_CHANNEL

_SQL = load("schedules")


@dataclass(frozen=True, slots=True)
class StoredSchedule:
    """A schedule's row: the definition as it was written, and where it stands."""

    row: Any

    @property
    def name(self) -> str:
        """Its name."""
        name: str = self.row["name"]
        return name

    @property
    def next_nominal_at(self) -> datetime | None:
        """The nominal time that it waits for."""
        instant: datetime | None = self.row["next_nominal_at"]
        return instant

    @property
    def anchor(self) -> datetime:
        """The phase of an interval without a start."""
        instant: datetime = self.row["created_at"]
        return instant

    @property
    def runs_left(self) -> int | None:
        """How many jobs it may still make; None without a bound."""
        return None if self.row["max_runs"] is None else self.row["max_runs"] - self.row["runs"]

    def definition(self) -> ScheduleDefinition:
        """The definition. Raises InvalidInput when the row holds what no release would accept now."""
        row = self.row
        return ScheduleDefinition(
            name=row["name"],
            task=row["task"],
            payload=row["payload"],
            cron=row["cron"],
            every_seconds=row["every_seconds"],
            at=row["at"],
            timezone=row["timezone"],
            jitter=timedelta(seconds=row["jitter_seconds"]),
            misfire=Misfire(row["misfire"]),
            max_catchup=row["max_catchup"],
            catchup_window=timedelta(seconds=row["catchup_window_seconds"]),
            overlap=Overlap(row["overlap"]),
            start_at=row["start_at"],
            end_at=row["end_at"],
            max_runs=row["max_runs"],
            paused=row["paused"],
            note=row["note"],
            queue=row["queue"],
            priority=row["priority"],
            tags=tuple(row["tags"]),
        )


async def save(connection: Conn, one: ScheduleDefinition, now: datetime) -> None:
    """Create or replace a schedule; its next nominal time is the first after ``now``. Raises InvalidInput."""
    existing = await lock(connection, one.name)
    trigger = one.trigger(existing.anchor if existing else now)
    nominal_at = one.rules().first_after(trigger, now)
    await connection.execute(
        _SQL["save"],
        *(one.name, one.task, one.payload, one.cron, one.every_seconds, one.at, one.timezone),
        *(one.jitter.total_seconds(), one.misfire.value, one.max_catchup, one.catchup_window.total_seconds()),
        *(
            one.overlap.value,
            one.start_at,
            one.end_at,
            one.max_runs,
            one.paused,
            one.note,
            one.queue,
            one.priority,
        ),
        *(list(one.tags), nominal_at, one.fires_at(trigger, nominal_at)),
    )


async def lock_name(connection: Conn, name: str) -> None:
    """Wait for whoever else creates a schedule of this name; until the transaction ends."""
    await connection.execute(_SQL["lock_name"], name)


async def lock(connection: Conn, name: str) -> StoredSchedule | None:
    """The schedule's row, locked until the transaction ends."""
    row = await connection.fetchrow(_SQL["lock"], name)
    return StoredSchedule(row) if row else None


async def get(connection: Conn, name: str) -> StoredSchedule | None:
    """The schedule, or None."""
    row = await connection.fetchrow(_SQL["get"], name)
    return StoredSchedule(row) if row else None


async def list_after(connection: Conn, name: str, most: int) -> list[StoredSchedule]:
    """A page of schedules by name."""
    return [StoredSchedule(row) for row in await connection.fetch(_SQL["list"], name, most)]


async def delete(connection: Conn, name: str) -> bool:
    """Delete a schedule; its fires and jobs stay. False when there is no such schedule."""
    return bool(await connection.fetchrow(_SQL["delete"], name))


async def take_due(connection: Conn, most: int) -> list[StoredSchedule]:
    """Lock up to ``most`` schedules whose fire is due."""
    return [StoredSchedule(row) for row in await connection.fetch(_SQL["take_due"], most)]


async def next_fire_in(connection: Conn) -> float | None:
    """Seconds until the next fire of any schedule, by Postgres's clock; None when there is none."""
    row = await connection.fetchrow(_SQL["next_fire"])
    return (row["fires_at"] - row["now"]).total_seconds() if row and row["fires_at"] else None


async def advance(
    connection: Conn, name: str, next_nominal_at: datetime | None, fires_at: datetime | None, new_runs: int
) -> None:
    """Store the next nominal time, in the transaction that recorded the fires before it."""
    await connection.execute(_SQL["advance"], name, next_nominal_at, fires_at, new_runs)


async def set_aside(connection: Conn, name: str, why: str) -> None:
    """A schedule that can't be evaluated is no longer looked at until it is edited; the others go on."""
    await connection.execute(_SQL["set_aside"], name, why)


async def set_paused(connection: Conn, one: StoredSchedule, paused: bool, note: str | None, now: datetime) -> None:
    """Pause or resume under the row's lock. After a resume nothing is caught up: it waits for the first after now."""
    definition = one.definition()
    trigger = definition.trigger(one.anchor)
    nominal_at = definition.rules().first_after(trigger, now)
    fires_at = definition.fires_at(trigger, nominal_at)
    await connection.execute(_SQL["set_paused"], one.name, paused, note, nominal_at, fires_at)


async def active_jobs(connection: Conn, name: str) -> tuple[int, int]:
    """How many jobs of a schedule wait, and how many run."""
    row = await connection.fetchrow(_SQL["active_jobs"], name)
    return (row["waiting"], row["running"]) if row else (0, 0)


async def cancel_running(connection: Conn, name: str) -> None:
    """Ask the running jobs of a schedule to stop."""
    await connection.execute(_SQL["cancel_running"], name, CANCEL_CHANNEL)


async def record_fires(
    connection: Conn, name: str, jobs: Sequence[tuple[datetime, UUID]], plan: FiringPlan
) -> set[datetime]:
    """Record what a plan does; returns the nominal times that nobody had recorded before."""
    rows: list[tuple[datetime, datetime, int, UUID | None, str | None]] = [
        (nominal_at, nominal_at, 1, job_id, None) for nominal_at, job_id in jobs
    ]
    rows += [(skip.first, skip.last, skip.count, None, skip.reason.value) for skip in plan.skipped]
    if not rows:
        return set()
    recorded = await connection.fetch(_SQL["record_fires"], name, *zip(*rows, strict=True))
    return {row["nominal_at"] for row in recorded}


async def fires_of(connection: Conn, name: str, before: datetime | None, most: int) -> list[Any]:
    """A page of what became of a schedule's nominal times, the latest first."""
    return list(await connection.fetch(_SQL["fires_of"], name, before, most))
