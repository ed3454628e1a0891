"""The auditor of fires: a duty of the leader. It knows only the definitions and the record, and compares the two.

A nominal time without a record was missed: that is said, and mended by the schedule's own misfire policy, so that none
rests unrecorded. A schedule whose jobs have not succeeded for longer than its interval is said to run in vain.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from mainspring.domain.errors import InvalidInput
from mainspring.domain.fire_audit import is_in_vain, missing, window_of
from mainspring.domain.firing import FiringPlan, Misfire, SkippedRange, SkipReason
from mainspring.domain.schedule import Trigger
from mainspring.runtime.leader import Leadership
from mainspring.runtime.loop import Pass
from mainspring.store import audit, fire_audit, fires, fleet, schedules
from mainspring.store.audit import AuditFinding
from mainspring.store.fire_audit import AuditedSchedule
from mainspring.store.pool import Conn, Database
from mainspring.store.schedules import StoredSchedule
from mainspring.telemetry import metrics
from mainspring.telemetry.logs import get_logger
from mainspring_services.scheduler.fire_due import DueSchedule, judge_overlaps, make_jobs

log = get_logger(__name__)
MISSED = "fire_missed"
IN_VAIN = "schedule_in_vain"
_PAGE = 200
#: Schedules that one pass looks at; the next one goes on from there.
_AT_ONCE = 10_000


class AuditFires:
    """The loop's configuration."""

    def __init__(self, database: Database, leadership: Leadership) -> None:
        self._database = database
        self._leadership = leadership
        self._last = ""
        #: Schedules that run in vain, as far as is known.
        self._in_vain: set[str] = set()
        #: Schedules that this round has seen.
        self._seen: set[str] = set()

    async def run_once(self) -> Pass:
        """Look at the next schedules in turn."""
        if not self._leadership.is_held:
            self._in_vain = set()
            metrics.AUDIT_FINDINGS.labels(IN_VAIN).set(0)
            return Pass()
        missed = 0
        for _ in range(_AT_ONCE // _PAGE):
            page = await self._database.run(lambda connection: fire_audit.page(connection, self._last, _PAGE))
            missed += await self._look_at(page, await self._database.run(fleet.now))
            self._seen.update(one.name for one in page)
            self._last = page[-1].name if len(page) == _PAGE else ""
            if not self._last:
                # What this round hasn't seen is gone, paused, or over.
                self._in_vain &= self._seen
                self._seen = set()
                break
        metrics.AUDIT_FINDINGS.labels(MISSED).set(missed)
        metrics.AUDIT_FINDINGS.labels(IN_VAIN).set(len(self._in_vain))
        return Pass(done=missed)

    async def _look_at(self, page: Sequence[AuditedSchedule], now: datetime) -> int:
        expected: dict[str, tuple[Trigger, tuple[datetime, datetime], int]] = {}
        for one in page:
            try:
                timetable = one.timetable()
            except InvalidInput:
                continue  # whoever fires it sets it aside
            since = max(one.active_since, one.last_success or one.active_since)
            is_so = is_in_vain(timetable.trigger, timetable.rules, since, now, timetable.jitter)
            await self._say_in_vain(one.name, is_so, since)
            if one.runs_left is None or one.runs_left > 0:
                window = window_of(
                    timetable.rules,
                    timetable.jitter,
                    active_since=one.active_since,
                    next_nominal_at=one.next_nominal_at,
                    now=now,
                )
                trigger = timetable.trigger
                expected[one.name] = trigger, window, trigger.count_between(*window)
            # A page takes some milliseconds of this process; its other loops go on meanwhile.
            await asyncio.sleep(0)
        windows = {name: window for name, (_, window, _) in expected.items()}
        recorded = await self._database.run(lambda connection: fire_audit.counts(connection, windows))
        doubtful = [name for name, (_, _, count) in expected.items() if recorded[name] != count]
        return sum([await self._look_closely(name, *expected[name][:2]) for name in doubtful])

    async def _look_closely(self, name: str, trigger: Trigger, window: tuple[datetime, datetime]) -> int:
        records = await self._database.run(lambda connection: fire_audit.recorded(connection, name, *window))
        found = missing(trigger, window, records)
        return await self._mend(name, found) if found else 0

    async def _say_in_vain(self, name: str, is_so: bool, since: datetime) -> None:
        if is_so == (name in self._in_vain):
            return
        if not is_so:
            self._in_vain.discard(name)
            log.info("audit finding is over", check=IN_VAIN, subject=name)
            return
        self._in_vain.add(name)
        log.error("audit finding", check=IN_VAIN, subject=name, no_success_since=since.isoformat())
        await self._note(AuditFinding(IN_VAIN, None, name))

    async def _mend(self, name: str, found: list[datetime]) -> int:
        """Say what was missed, and fire it or record it as its schedule's misfire policy has it."""
        for at in found[:20]:
            log.error("audit finding", check=MISSED, subject=f"{name} at {at.isoformat()}")
        await self._note(*(AuditFinding(MISSED, None, f"{name} at {at.isoformat()}") for at in found[:20]))
        async with self._leadership.transaction() as connection:
            if connection is None:
                return 0
            stored = await schedules.lock(connection, name)
            if stored is None or stored.row["paused"] or stored.row["broken"] is not None:
                return 0
            await _fire_missed(connection, stored, found)
        return len(found)

    async def _note(self, *findings: AuditFinding) -> None:
        async with self._leadership.transaction() as connection:
            if connection is not None:
                await audit.note(connection, findings)


async def _fire_missed(connection: Conn, stored: StoredSchedule, found: list[datetime]) -> None:
    timetable = stored.timetable()
    rules = timetable.rules
    now = await fleet.now(connection)
    oldest = now - rules.catchup_window if rules.catchup_window else now
    plan = FiringPlan(tuple(found), (), stored.next_nominal_at, stored.runs_left)
    plan = plan.keep_latest(sum(at >= oldest for at in found), SkipReason.CATCHUP_WINDOW)
    match rules.misfire:
        case Misfire.SKIP:
            plan = plan.keep_latest(0, SkipReason.MISFIRE)
        case Misfire.FIRE_ONCE:
            plan = plan.keep_latest(1, SkipReason.SUPERSEDED)
        case Misfire.FIRE_ALL:
            plan = plan.keep_latest(rules.max_catchup, SkipReason.MAX_CATCHUP)
    if stored.runs_left is not None:
        plan = plan.keep_earliest(stored.runs_left, SkipReason.MAX_RUNS)
    one = DueSchedule(stored, timetable, stored.overlap, plan)
    await judge_overlaps(connection, [one])
    # What lies between them is recorded already: each of them by itself.
    singly = tuple(
        SkippedRange(at, at, 1, skip.reason)
        for skip in one.plan.skipped
        for at in found
        if skip.first <= at <= skip.last and at not in one.plan.fire
    )
    one.plan = replace(one.plan, skipped=singly)
    made = await make_jobs(connection, [one], now)
    await fires.advance(
        connection, [one.step(made.counts.get(one.name, 0))._replace(last_local=stored.row["last_local"])]
    )
