"""A duty of the leader: stored next times follow the zone data, which changes when governments change the clocks.

The leader's release of the zone data is the fleet's. When it is another one than before, every next time is computed
again from what is decided already; what another service stored by other data is computed again when it is due. A time
on the wall's clock comes once: a fixed time that the old rules have brought already isn't brought again by the new.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from mainspring.domain.cron import parse
from mainspring.domain.errors import InvalidInput
from mainspring.domain.firing import SkippedRange, SkipReason
from mainspring.domain.zones import zone_data_version
from mainspring.runtime.leader import Leadership
from mainspring.runtime.loop import Pass
from mainspring.store import fires, other_zone_data, schedules, zone_data
from mainspring.store.fires import FireRow, Step
from mainspring.store.other_zone_data import OtherSchedule
from mainspring.store.pool import Conn, Database
from mainspring.telemetry.logs import get_logger
from mainspring_services.scheduler.fire_due import set_aside

log = get_logger(__name__)
_PAGE = 500


@dataclass(frozen=True, slots=True)
class FollowZoneData:
    """The loop's configuration."""

    database: Database
    leadership: Leadership

    async def run_once(self) -> Pass:
        """Compute again whatever was computed by other zone data."""
        if not self.leadership.is_held:
            return Pass()
        done = 0
        before = await self.database.run(zone_data.release)
        if before != zone_data_version():
            done = await self._follow_all()
            log.info("the zone data is another one", release=zone_data_version(), before=before, schedules=done)
        async with self.leadership.transaction() as connection:
            if connection is not None:
                due = await other_zone_data.lock_due_others(connection, _PAGE)
                await _compute_again(connection, due)
                done += len(due)
        return Pass(done=done)

    async def _follow_all(self) -> int:
        done, last = 0, ""
        while True:
            async with self.leadership.transaction() as connection:
                if connection is None:
                    return done
                page = await other_zone_data.lock_others(connection, last, _PAGE)
                await _compute_again(connection, page)
                if not page:
                    # Said at the end: whoever is interrupted before begins again.
                    await zone_data.set_release(connection)
                    return done
                done, last = done + len(page), page[-1].name


async def _compute_again(connection: Conn, page: Sequence[OtherSchedule]) -> None:
    steps: list[Step] = []
    rows: list[FireRow] = []
    for one in page:
        try:
            step, repeated = _step(one)
        except (InvalidInput, ValueError, OverflowError) as error:
            await set_aside(connection, one, error)
            continue
        steps.append(step)
        rows += repeated
    await fires.record(connection, rows)
    await fires.advance(connection, steps)


def _step(one: OtherSchedule) -> tuple[Step, list[FireRow]]:
    """What it waits for now, and the nominal times whose time on the clock had come by the old rules."""
    timetable = one.timetable()
    nominal_at = timetable.first_after(one.decided_until)
    repeated = []
    is_fixed_time = one.row["cron"] is not None and parse(one.row["cron"]).is_fixed_time
    while is_fixed_time and nominal_at is not None and _has_come(one, nominal_at):
        repeated.append(
            fires.skipped_row(one.name, SkippedRange(nominal_at, nominal_at, 1, SkipReason.ZONE_DATA)),
        )
        nominal_at = timetable.first_after(nominal_at)
    fires_at = timetable.fires_at(nominal_at)
    return Step(one.name, nominal_at, fires_at, 0, one.row["last_local"]), repeated


def _has_come(one: OtherSchedule, nominal_at: datetime) -> bool:
    last: datetime | None = one.row["last_local"]
    local = schedules.local_at(one.row["timezone"], nominal_at)
    return last is not None and local is not None and local <= last
