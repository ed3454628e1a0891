"""The client's side of schedules."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypedDict, Unpack
from uuid import UUID

from mainspring.domain.definition import ScheduleDefinition
from mainspring.domain.firing import Misfire, Overlap
from mainspring.domain.job import JobRequest
from mainspring.runtime import schedule_changes
from mainspring.runtime.wake import Wake
from mainspring.store import schedules
from mainspring.store.pool import Conn, Database
from mainspring.store.schedules import StoredSchedule


class ScheduleOptions(TypedDict, total=False):
    """When it fires, and by which policies; what is left out has the default of ``ScheduleDefinition``."""

    cron: str
    at: datetime
    timezone: str
    jitter: timedelta
    misfire: Misfire
    max_catchup: int
    catchup_window: timedelta
    overlap: Overlap
    start_at: datetime
    end_at: datetime
    max_runs: int
    paused: bool
    note: str


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule as it is stored."""

    name: str
    #: None when no more come, or while it is paused.
    next_nominal_at: datetime | None
    #: Why it can't be evaluated any more; it fires again once it is saved anew.
    broken: str | None
    #: Why it is paused.
    pause_note: str | None
    _stored: StoredSchedule = field(repr=False)

    @property
    def definition(self) -> ScheduleDefinition:
        """What was saved. Raises InvalidInput when this release would not accept it now."""
        return self._stored.definition()


class Schedules:
    """``client.schedules``: what ``/v1/schedules`` does, for Python."""

    def __init__(self, database: Database, wake: Wake) -> None:
        self._database = database
        self._wake = wake

    async def save(
        self,
        name: str,
        request: JobRequest,
        *,
        every: timedelta | None = None,
        connection: Any = None,
        **options: Unpack[ScheduleOptions],
    ) -> Schedule:
        """Create or replace a schedule; its jobs are ``request``, with the timeout and the retries of its task.

        Exactly one of ``cron``, ``every`` and ``at`` says when. ``connection``: an asyncpg connection inside the
        caller's transaction. Raises InvalidInput naming the field.
        """
        definition = ScheduleDefinition(
            name,
            request.task,
            request.payload,
            every_seconds=every.total_seconds() if every else None,
            queue=request.queue,
            priority=request.priority,
            tags=request.tags,
            **options,
        )
        if connection is not None:
            return _shown(await schedule_changes.save(connection, definition))

        async def work(own: Conn) -> StoredSchedule:
            return await schedule_changes.save(own, definition)

        return _shown(await self._database.run_in_transaction(work))

    async def get(self, name: str) -> Schedule:
        """A schedule. Raises NotFound."""
        return _shown(await self._database.run(lambda connection: schedule_changes.found(connection, name)))

    async def list(self, *, after: str = "", limit: int = 1000) -> list[Schedule]:
        """Schedules by name, those behind the name ``after``."""
        found = await self._database.run(lambda connection: schedules.list_after(connection, after, limit))
        return [_shown(one) for one in found]

    async def pause(self, name: str, note: str | None = None) -> Schedule:
        """Nothing fires until it is resumed. Raises NotFound."""
        return await self._set_paused(name, True, note)

    async def resume(self, name: str) -> Schedule:
        """It waits for its first nominal time after now. Raises NotFound."""
        return await self._set_paused(name, False, None)

    async def trigger(self, name: str, *, idempotency_key: str | None = None) -> UUID:
        """Make a job of it now, beside its nominal times; returns the job's id. Raises NotFound."""
        accepted = await self._database.run_in_transaction(
            lambda connection: schedule_changes.trigger(connection, name, idempotency_key=idempotency_key)
        )
        self._wake.call()
        return accepted.id

    async def delete(self, name: str) -> None:
        """Delete it; the jobs that it made stay. Raises NotFound."""
        await self._database.run_in_transaction(lambda connection: schedule_changes.delete(connection, name))

    async def _set_paused(self, name: str, paused: bool, note: str | None) -> Schedule:
        return _shown(
            await self._database.run_in_transaction(
                lambda connection: schedule_changes.set_paused(connection, name, paused, note)
            )
        )


def _shown(one: StoredSchedule) -> Schedule:
    return Schedule(one.name, one.next_nominal_at, one.row["broken"], one.row["pause_note"], one)
