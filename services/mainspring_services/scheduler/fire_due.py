"""Schedules → jobs: each nominal time becomes one job, or is recorded as skipped with its reason.

Many schedules in one transaction, under their rows' locks: plan, judge the overlaps, record the fires, insert the jobs,
store the next nominal times; each of these is one statement for all of them. Jobs that only credit is asked for are
inserted as released (``release_fired``). A schedule that can't be evaluated is set aside; the others go on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from mainspring.domain.errors import InvalidInput
from mainspring.domain.firing import FiringPlan, Overlap, SkippedRange, SkipReason
from mainspring.domain.timetable import Timetable
from mainspring.domain.trace import JobTrace
from mainspring.fault_points import reach
from mainspring.runtime import ledger
from mainspring.runtime.ledger import Passed
from mainspring.runtime.loop import Pass
from mainspring.store import fires, fleet, jobs, release, runs, schedules
from mainspring.store.fires import FireRow, Step
from mainspring.store.jobs import JobRow
from mainspring.store.pool import Conn, Database
from mainspring.store.release import OutboxBatch
from mainspring.store.schedules import StoredSchedule
from mainspring.telemetry import metrics, tracing
from mainspring.telemetry.logs import get_logger
from mainspring.telemetry.tracing import Operation
from mainspring_services.scheduler.release_due import ReleaseDue
from mainspring_services.scheduler.release_fired import ReleaseFired, Room

log = get_logger(__name__)
MOST = 500
LEAST_WAIT = 0.05
#: Overlap policies that don't ask what the earlier jobs do.
_BLIND = frozenset({Overlap.ALLOW})
#: Those under which one job runs at a time: a later one is kept back until the earlier have ended.
_ONE_AT_A_TIME = frozenset({Overlap.QUEUE_ONE, Overlap.QUEUE_ALL, Overlap.CANCEL_RUNNING})


@dataclass(slots=True)
class DueSchedule:
    """One schedule of a pass."""

    stored: StoredSchedule
    timetable: Timetable
    overlap: Overlap
    plan: FiringPlan
    #: A new job's id for each nominal time that fires.
    ids: list[UUID] = field(default_factory=list)
    #: Its earlier jobs that wait or run.
    active: int = 0

    @property
    def name(self) -> str:
        """Its name."""
        return self.timetable.schedule

    def rows(self) -> list[FireRow]:
        """What is to be recorded."""
        fired = [
            FireRow(self.name, nominal_at, nominal_at, 1, id_, None, self.timetable.planned(nominal_at))
            for nominal_at, id_ in zip(self.plan.fire, self.ids, strict=True)
        ]
        return fired + [fires.skipped_row(self.name, skip) for skip in self.plan.skipped]

    def step(self, runs: int) -> Step:
        """Where it stands afterwards."""
        next_nominal_at = self.plan.next_nominal_after(runs)
        decided = [*self.plan.fire[-1:], *(skip.last for skip in self.plan.skipped)]
        last = max(decided) if decided else None
        row = self.stored.row
        local = schedules.local_at(row["timezone"], last) or row["last_local"]
        return Step(self.name, next_nominal_at, self.timetable.fires_at(next_nominal_at), runs, local)


class Made(NamedTuple):
    """The jobs of some schedules' fires."""

    #: How many, by schedule.
    counts: Mapping[str, int]
    #: Those that are released already, to be published after the commit.
    batches: Sequence[OutboxBatch]
    #: How many are not.
    to_release: int


NOTHING = Made({}, (), 0)


class FireDue:
    """The loop: where it reads, and who publishes and releases what it makes."""

    def __init__(self, database: Database, releases: ReleaseDue) -> None:
        self._database = database
        self._releases = releases
        self._release_fired = ReleaseFired(releases.window_of)

    async def run_once(self) -> Pass:
        """Fire what is due; wait for the next fire of any schedule."""
        wait = await self._database.run(fires.next_fire_in)
        if wait is None or wait > 0:
            return Pass(wait=wait)
        try:
            taken, made = await self._database.run_in_transaction(self._fire)
        except InvalidInput as error:
            # One of them can't be stored: take them singly, so that only that one is set aside.
            log.warning("firing singly", why=str(error))
            taken, made = await self._database.run_in_transaction(self._fire_one)
        if not taken:
            # What is due and wasn't taken is in another's hands.
            return Pass(wait=LEAST_WAIT)
        reach("fire.committed")
        if made.batches:
            self._releases.hand_over(made.batches)
        if made.to_release:
            self._releases.wake_up()
        return Pass(done=taken, again=True)

    async def _fire(self, connection: Conn) -> tuple[int, Made]:
        taken = await fires.take_due(connection, MOST)
        return len(taken), await self._fire_schedules(connection, taken)

    async def _fire_one(self, connection: Conn) -> tuple[int, Made]:
        taken = await fires.take_due(connection, 1)
        for one in taken:
            try:
                async with connection.transaction():
                    return 1, await self._fire_schedules(connection, [one])
            except InvalidInput as error:
                await set_aside(connection, one, error)
        return len(taken), NOTHING

    async def _fire_schedules(self, connection: Conn, taken: Sequence[StoredSchedule]) -> Made:
        if not taken:
            return NOTHING
        now = await fleet.now(connection)
        due = []
        for one in taken:
            try:
                due.append(_plan(one, now))
            except (InvalidInput, ValueError, OverflowError) as error:
                # An old row, or zone data that no longer knows the zone.
                await set_aside(connection, one, error)
        await _pause_failing(connection, due)
        await judge_overlaps(connection, due)
        made = await make_jobs(connection, due, now, self._release_fired)
        await fires.advance(connection, [one.step(made.counts.get(one.name, 0)) for one in due])
        return made


def _plan(one: StoredSchedule, now: datetime) -> DueSchedule:
    if one.next_nominal_at is None:
        raise InvalidInput("next_nominal_at", "is missing though the schedule is due")
    timetable = one.timetable()
    plan = timetable.plan(one.next_nominal_at, now, one.runs_left)
    return DueSchedule(one, timetable, one.overlap, plan)


async def _pause_failing(connection: Conn, due: Sequence[DueSchedule]) -> None:
    """Those that have failed so often in a row that they are to pause themselves do."""
    patience = {one.name: after for one in due if (after := one.stored.row["pause_after"]) is not None}
    failing = await fires.failing(connection, patience)
    notes = {name: f"paused itself after {patience[name]} failures in a row" for name in failing}
    await fires.pause_failing(connection, notes)
    for one in due:
        if one.name in failing:
            one.plan = one.plan.keep_latest(0, SkipReason.FAILURES)
            metrics.SCHEDULES_PAUSED.inc()
            log.warning("schedule paused itself", schedule=one.name, why=notes[one.name])


async def judge_overlaps(connection: Conn, due: Sequence[DueSchedule]) -> None:
    """Take out of the plans what the overlap policies don't allow."""
    judged = [one for one in due if one.plan.fire and one.overlap not in _BLIND]
    active = await fires.active_jobs(connection, [one.name for one in judged])
    for one in judged:
        waiting, running = active.get(one.name, (0, 0))
        one.active = waiting + running
        one.plan = one.plan.under(one.overlap, active=one.active, waiting=waiting)
    await fires.cancel_running(connection, [one.name for one in judged if one.plan.cancels_running])


async def make_jobs(
    connection: Conn, due: Sequence[DueSchedule], now: datetime, release_fired: ReleaseFired | None = None
) -> Made:
    """Insert a job for each nominal time that nobody has recorded before."""
    await _spare_recorded(connection, due)
    for one in due:
        one.ids = [jobs.new_id() for _ in one.plan.fire]
    rows = [row for one in due for row in one.rows()]
    recorded = await fires.record(connection, rows)
    room = await release_fired.room(connection, {one.stored.place for one in due}) if release_fired else Room()
    new, held, counts = _jobs_of(due, recorded, room)
    if new:
        await jobs.insert_rows(connection, new)
        await runs.hold(connection, held)
        metrics.FIRED.inc(len(new))
    batches = await release.store_batches(connection, room.taken)
    for row in rows:
        if row.planned_at is not None:
            metrics.FIRE_LATENESS.observe(max((now - row.planned_at).total_seconds(), 0))
    return Made(counts, batches, len(new) - sum(len(batch.refs) for batch in batches))


def _jobs_of(
    due: Sequence[DueSchedule], recorded: set[tuple[str, datetime]], room: Room
) -> tuple[list[JobRow], list[UUID], dict[str, int]]:
    """The jobs of what was recorded, those of them that are kept back, and how many each schedule has."""
    new: list[JobRow] = []
    held: list[UUID] = []
    counts: dict[str, int] = {}
    for one in due:
        for skip in one.plan.skipped:
            metrics.FIRES_SKIPPED.labels(skip.reason.value).inc(skip.count)
        for nominal_at, id_ in zip(one.plan.fire, one.ids, strict=True):
            if (one.name, nominal_at) in recorded:
                count = counts.get(one.name, 0)
                is_held = one.overlap in _ONE_AT_A_TIME and one.active + count > 0
                if is_held:
                    held.append(id_)
                queue = None if is_held else room.take(one.stored.place, id_)
                new.append(one.stored.job(id_, nominal_at, _trace(one.stored, id_), queue))
                counts[one.name] = count + 1
    return new, held, counts


async def _spare_recorded(connection: Conn, due: Sequence[DueSchedule]) -> None:
    """A run of skipped nominal times holds none that is recorded: a backfill may have been there."""
    passed = [
        Passed(one.name, one.timetable.trigger, skip)
        for one in due
        if any(skip.count > 1 for skip in one.plan.skipped)
        for skip in one.plan.skipped
    ]
    left: dict[str, list[SkippedRange]] = {one.schedule: [] for one in passed}
    for piece in await ledger.without_recorded(connection, passed):
        left[piece.schedule].append(piece.skipped)
    for one in due:
        if one.name in left:
            one.plan = replace(one.plan, skipped=tuple(left[one.name]))


def _trace(stored: StoredSchedule, job_id: UUID) -> str | None:
    """The root of the trace of a schedule's job."""
    if not tracing.is_on():
        return None
    span = tracing.start(
        Operation.FIRE,
        stored.row["queue"],
        JobTrace(job_id, None),
        **{"messaging.message.id": str(job_id), "mainspring.schedule": stored.name},
    )
    span.end()
    return tracing.traceparent_of(span)


async def set_aside(connection: Conn, one: StoredSchedule, error: Exception) -> None:
    """Look at this schedule no more until it is edited: said once, counted, and the others go on."""
    metrics.SCHEDULES_BROKEN.inc()
    log.error("schedule set aside", schedule=one.name, why=str(error))
    await schedules.set_aside(connection, one.name, str(error)[:500])
