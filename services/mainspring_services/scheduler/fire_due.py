"""Schedules → jobs: each nominal time becomes one job, or is recorded as skipped with its reason.

In one transaction, under the rows' locks: plan, judge the overlap, record the fires, insert the jobs, store the
next nominal times. A schedule that can't be evaluated is set aside; the others go on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from mainspring.domain.definition import ScheduleDefinition
from mainspring.domain.errors import InvalidInput
from mainspring.domain.firing import FiringPlan, plan_fires
from mainspring.domain.schedule import Trigger
from mainspring.domain.trace import JobTrace
from mainspring.fault_points import reach
from mainspring.runtime.loop import Pass
from mainspring.store import fleet, jobs, schedules
from mainspring.store.pool import Conn, Database
from mainspring.store.schedules import StoredSchedule
from mainspring.telemetry import metrics, tracing
from mainspring.telemetry.logs import get_logger
from mainspring.telemetry.tracing import Operation

log = get_logger(__name__)
MOST = 200


@dataclass(frozen=True, slots=True)
class FireDue:
    """The loop's configuration. ``wake_release`` is called when jobs were made."""

    database: Database
    wake_release: Callable[[], None]

    async def run_once(self) -> Pass:
        """Fire what is due; wait for the next fire of any schedule."""
        try:
            taken = await self.database.run_in_transaction(lambda connection: self._fire(connection, MOST))
        except InvalidInput as error:
            # One of them can't be stored: take them singly, so that only that one is set aside.
            log.warning("firing singly", why=str(error))
            taken = await self.database.run_in_transaction(self._fire_one)
        if taken:
            reach("fire.committed")
            self.wake_release()
            return Pass(done=taken, again=True)
        return Pass(wait=await self.database.run(schedules.next_fire_in))

    async def _fire(self, connection: Conn, most: int) -> int:
        due = await schedules.take_due(connection, most)
        for one in due:
            await self._fire_schedule(connection, one)
        return len(due)

    async def _fire_one(self, connection: Conn) -> int:
        due = await schedules.take_due(connection, 1)
        for one in due:
            try:
                async with connection.transaction():
                    await self._fire_schedule(connection, one)
            except InvalidInput as error:
                await set_aside(connection, one, error)
        return len(due)

    async def _fire_schedule(self, connection: Conn, one: StoredSchedule) -> None:
        now = await fleet.now(connection)
        try:
            definition = one.definition()
            trigger = definition.trigger(one.anchor)
            plan = _plan(one, definition, trigger, now)
        except (InvalidInput, ValueError, OverflowError) as error:
            # An old row, or zone data that no longer knows the zone.
            await set_aside(connection, one, error)
            return
        waiting, running = await schedules.active_jobs(connection, one.name)
        plan = plan.under(definition.overlap, active=waiting + running, waiting=waiting)
        if plan.cancels_running:
            await schedules.cancel_running(connection, one.name)
        made = await _make_jobs(connection, definition, plan)
        fires_at = definition.fires_at(trigger, plan.next_nominal_at)
        await schedules.advance(connection, one.name, plan.next_nominal_at, fires_at, made)


def _plan(one: StoredSchedule, definition: ScheduleDefinition, trigger: Trigger, now: datetime) -> FiringPlan:
    nominal_at = one.next_nominal_at
    if nominal_at is None:
        raise InvalidInput("next_nominal_at", "is missing though the schedule is due")
    return plan_fires(trigger, definition.rules(), next_nominal_at=nominal_at, now=now, runs_left=one.runs_left)


async def _make_jobs(connection: Conn, definition: ScheduleDefinition, plan: FiringPlan) -> int:
    """Insert a job for each nominal time that nobody has recorded before; returns how many."""
    ids = [jobs.new_id() for _ in plan.fire]
    recorded = await schedules.record_fires(connection, definition.name, list(zip(plan.fire, ids, strict=True)), plan)
    fresh = [(nominal_at, id_) for nominal_at, id_ in zip(plan.fire, ids, strict=True) if nominal_at in recorded]
    for skip in plan.skipped:
        metrics.FIRES_SKIPPED.labels(skip.reason.value).inc(skip.count)
    if fresh:
        requests = [definition.request(nominal_at, _trace(definition, id_)) for nominal_at, id_ in fresh]
        await jobs.insert(connection, requests, [id_ for _, id_ in fresh])
        metrics.FIRED.inc(len(fresh))
    return len(fresh)


def _trace(definition: ScheduleDefinition, job_id: UUID) -> str | None:
    """The root of the trace of a schedule's job."""
    span = tracing.start(
        Operation.FIRE,
        definition.queue,
        JobTrace(job_id, None),
        **{"messaging.message.id": str(job_id), "mainspring.schedule": definition.name},
    )
    span.end()
    return tracing.traceparent_of(span)


async def set_aside(connection: Conn, one: StoredSchedule, error: Exception) -> None:
    """Look at this schedule no more until it is edited: said once, counted, and the others go on."""
    metrics.SCHEDULES_BROKEN.inc()
    log.error("schedule set aside", schedule=one.name, why=str(error))
    await schedules.set_aside(connection, one.name, str(error)[:500])
