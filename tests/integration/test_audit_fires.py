"""The auditor of fires knows the definitions and the record alone: it finds what is missing, and has it made up for."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mainspring.domain.firing import Misfire, Overlap
from mainspring.domain.states import State
from mainspring.runtime.leader import Leadership
from mainspring.store import fleet
from mainspring.store.pool import Database
from mainspring_services.scheduler.audit_fires import AuditFires

from .rows import put_job
from .schedules import fires_of, firing, jobs_of, make_due, save, stored

MINUTE = timedelta(minutes=1)


async def auditor(database: Database) -> AuditFires:
    leadership = Leadership(database, "leader")
    await leadership.renew()
    return AuditFires(database, leadership)


async def findings(database: Database) -> list[str]:
    async with database.connection() as connection:
        rows = await connection.fetch("SELECT details FROM mainspring.events WHERE event = 'audit'")
    return sorted(row["details"] for row in rows)


async def lose(database: Database, name: str, count: int) -> list[Any]:
    """Delete the record of some nominal times that fired, and their jobs: what a defect would leave out."""
    lost = [row["nominal_at"] for row in (await fires_of(database, name))[2 : 2 + count]]
    async with database.connection() as connection:
        await connection.execute("DELETE FROM mainspring.fires WHERE nominal_at = ANY ($1)", lost)
        await connection.execute(
            "DELETE FROM mainspring.live_jobs WHERE id IN"
            " (SELECT id FROM mainspring.job_details WHERE nominal_at = ANY ($1))",
            lost,
        )
    return lost


async def ten_fires(database: Database, **fields: Any) -> None:
    await save(database, "s", every_seconds=60, **{"misfire": Misfire.FIRE_ALL, **fields})
    await make_due(database, "s", 10 * MINUTE)
    await firing(database).run_once()
    assert len(await jobs_of(database, "s")) == 10


async def test_a_complete_record_has_no_finding(database: Database) -> None:
    await ten_fires(database)
    await save(database, "late", every_seconds=60)
    await make_due(database, "late", 30 * MINUTE)
    await firing(database).run_once()
    await save(database, "waits", every_seconds=60)
    await make_due(database, "waits", 30 * MINUTE)  # overdue, which is another check's matter
    assert (await (await auditor(database)).run_once()).done == 0


@pytest.mark.parametrize(
    ("misfire", "made", "skipped"),
    [(Misfire.FIRE_ALL, 3, []), (Misfire.FIRE_ONCE, 1, ["superseded"] * 2), (Misfire.SKIP, 0, ["misfire"] * 3)],
)
async def test_what_was_missed_is_said_and_made_up_for_by_the_schedules_own_policy(
    database: Database, misfire: Misfire, made: int, skipped: list[str]
) -> None:
    await ten_fires(database)
    lost = await lose(database, "s", 3)
    async with database.connection() as connection:
        await connection.execute("UPDATE mainspring.schedules SET misfire = $1", misfire.value)
    before = await stored(database, "s")
    assert (await (await auditor(database)).run_once()).done == 3
    rows = await fires_of(database, "s")
    assert len(rows) == 10
    assert [row["skipped"] for row in rows if row["skipped"]] == skipped
    assert len(await jobs_of(database, "s")) == 7 + made
    assert sum("fire_missed" in one for one in await findings(database)) == len(lost)
    assert (await stored(database, "s")).next_nominal_at == before.next_nominal_at
    assert (await (await auditor(database)).run_once()).done == 0


async def test_one_inside_a_run_of_skipped_times_is_not_missing(database: Database) -> None:
    await save(database, "s", every_seconds=60, misfire=Misfire.SKIP)
    await make_due(database, "s", 20 * MINUTE)
    await firing(database).run_once()
    assert (await (await auditor(database)).run_once()).done == 0


async def test_a_schedule_without_success_for_longer_than_its_interval_runs_in_vain(database: Database) -> None:
    await save(database, "s", every_seconds=60, overlap=Overlap.ALLOW)
    await save(database, "well", every_seconds=60)
    for name in ("s", "well"):
        await make_due(database, name, 10 * MINUTE)
    await firing(database).run_once()
    async with database.connection() as connection:
        await put_job(connection, State.SUCCEEDED, schedule="well")
    one = await auditor(database)
    await one.run_once()
    await one.run_once()
    (found,) = [each for each in await findings(database) if "schedule_in_vain" in each]
    assert '"s"' in found
    async with database.connection() as connection:
        await put_job(connection, State.SUCCEEDED, schedule="s")
    await one.run_once()
    assert len([each for each in await findings(database) if "schedule_in_vain" in each]) == 1


async def test_only_the_leader_audits(database: Database) -> None:
    await ten_fires(database)
    await lose(database, "s", 1)
    assert (await AuditFires(database, Leadership(database, "leader")).run_once()).done == 0


async def test_what_has_not_begun_or_is_over_does_not_run_in_vain(database: Database) -> None:
    async with database.connection() as connection:
        now = await fleet.now(connection)
    await save(database, "later", every_seconds=60, start_at=now + timedelta(days=30))
    await save(database, "over", every_seconds=60, max_runs=1)
    await make_due(database, "over", 10 * MINUTE)
    await firing(database).run_once()
    async with database.connection() as connection:
        await connection.execute("UPDATE mainspring.schedules SET active_since = $1", now - timedelta(hours=3))
    await (await auditor(database)).run_once()
    assert await findings(database) == []


async def test_what_an_older_release_pauses_and_edits_is_no_gap(database: Database) -> None:
    await save(database, "s", every_seconds=60)
    await make_due(database, "s", 10 * MINUTE)
    async with database.connection() as connection:
        # As release 0.1.0 resumed a schedule: the columns of today are unknown to it.
        await connection.execute("UPDATE mainspring.schedules SET paused = true, updated_at = clock_timestamp()")
        await connection.execute(
            "UPDATE mainspring.schedules SET paused = false, next_nominal_at = clock_timestamp() + interval '1 minute',"
            " fires_at = clock_timestamp() + interval '1 minute', updated_at = clock_timestamp()"
        )
    assert (await (await auditor(database)).run_once()).done == 0
    assert not await jobs_of(database, "s")


async def test_a_gap_older_than_the_catch_up_window_makes_no_job(database: Database) -> None:
    await ten_fires(database)
    await lose(database, "s", 3)
    async with database.connection() as connection:
        await connection.execute("UPDATE mainspring.schedules SET catchup_window_seconds = 1")
    await (await auditor(database)).run_once()
    assert [row["skipped"] for row in await fires_of(database, "s") if row["skipped"]] == ["catchup_window"] * 3
