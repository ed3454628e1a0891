"""Backfill: each past nominal time gets its job once, in order, and the live runs don't notice."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from mainspring.domain.errors import InvalidInput, NotFound
from mainspring.domain.firing import Misfire, Overlap
from mainspring.domain.job import JobRef
from mainspring.domain.states import State
from mainspring.runtime import backfill, schedule_changes
from mainspring.store import backfills, claims, fire_audit, fires, fleet, runs, settle
from mainspring.store.backfills import Backfill
from mainspring.store.pool import Conn, Database
from mainspring_services.scheduler.backfill_due import BackfillDue

from .rows import put_job
from .schedules import fires_of, firing, jobs_of, make_due, save

HOUR = timedelta(hours=1)


async def start(database: Database, hours: int, parallel: int = 1) -> Backfill:
    async with database.transaction() as connection:
        now = await fleet.now(connection)
        return await backfill.start(connection, "s", now - hours * HOUR, now, parallel)


async def finish_jobs(database: Database) -> None:
    async with database.connection() as connection:
        await connection.execute("DELETE FROM mainspring.live_jobs")


async def test_its_jobs_run_one_after_another_in_order_and_last_in_the_queue(database: Database) -> None:
    await save(database, "s", every_seconds=3600)
    asked = await start(database, 5)
    assert asked.nominal_times == 5
    loop = BackfillDue(database, lambda: None)
    for number in range(1, 6):
        await loop.run_once()
        await loop.run_once()
        assert len(await fires_of(database, "s")) == number
        (job,) = await jobs_of(database, "s")
        assert job["priority"] == 9
        await finish_jobs(database)
    await loop.run_once()
    async with database.connection() as connection:
        (ended,) = await backfills.of(connection, "s", 10)
    assert (ended.state, ended.jobs) == ("finished", 5)
    nominal_times = [row["nominal_at"] for row in await fires_of(database, "s")]
    assert nominal_times == sorted(nominal_times, reverse=True)
    assert {row["backfill"] for row in await fires_of(database, "s")} == {asked.id}


async def test_some_at_once_when_asked(database: Database) -> None:
    await save(database, "s", every_seconds=3600)
    await start(database, 8, parallel=3)
    loop = BackfillDue(database, lambda: None)
    await loop.run_once()
    assert len(await jobs_of(database, "s")) == 3
    await loop.run_once()
    assert len(await jobs_of(database, "s")) == 3


async def test_what_has_a_job_gets_no_second_one_and_what_was_skipped_gets_its_own(database: Database) -> None:
    await save(database, "s", every_seconds=3600, misfire=Misfire.FIRE_ONCE)
    await make_due(database, "s", 6 * HOUR)
    await firing(database).run_once()
    (fired,) = await jobs_of(database, "s")
    await start(database, 4, parallel=100)
    await BackfillDue(database, lambda: None).run_once()
    rows = await fires_of(database, "s")
    # Six nominal times: the latest fired, three made now, and the two before the backfill still skipped, in one row.
    assert [row["job_id"] is None for row in rows] == [False, False, False, False, True]
    assert rows[0]["job_id"] == fired["id"]
    assert rows[-1]["nominal_times"] == 2
    assert sum(row["nominal_times"] for row in rows) == 6


async def test_an_overlap_policy_does_not_count_its_jobs(database: Database) -> None:
    await save(database, "s", every_seconds=3600, overlap=Overlap.SKIP)
    await start(database, 3)
    await BackfillDue(database, lambda: None).run_once()
    await make_due(database, "s", timedelta(minutes=59))
    await firing(database).run_once()
    assert await fires_of(database, "s")
    assert [row["skipped"] for row in await fires_of(database, "s")] == [None] * len(await fires_of(database, "s"))


async def test_a_backfill_of_a_deleted_schedule_ends(database: Database) -> None:
    await save(database, "s", every_seconds=3600)
    await start(database, 3)
    async with database.connection() as connection:
        await connection.execute("DELETE FROM mainspring.schedules")
    await BackfillDue(database, lambda: None).run_once()
    async with database.connection() as connection:
        (ended,) = await backfills.of(connection, "s", 10)
    assert ended.state == "cancelled"


async def test_a_cancelled_one_makes_no_more_jobs(database: Database) -> None:
    await save(database, "s", every_seconds=3600)
    asked = await start(database, 3)
    loop = BackfillDue(database, lambda: None)
    await loop.run_once()
    await database.run_in_transaction(lambda connection: backfill.cancel(connection, "s", asked.id))
    await finish_jobs(database)
    await loop.run_once()
    assert len(await fires_of(database, "s")) == 1
    with pytest.raises(NotFound):
        await database.run_in_transaction(lambda connection: backfill.cancel(connection, "s", asked.id))


async def test_its_bounds_are_said(database: Database) -> None:
    await save(database, "s", every_seconds=60)
    async with database.transaction() as connection:
        now = await fleet.now(connection)
        for field, window in {
            "end_at: must not be in the future": (now, now + HOUR),
            "end_at: must be later": (now, now),
            "end_at: there are 43200": (now - 30 * 24 * HOUR, now),
            "start_at: there is no nominal time": (now - timedelta(microseconds=2), now - timedelta(microseconds=1)),
        }.items():
            with pytest.raises(InvalidInput, match=field):
                await backfill.start(connection, "s", *window)
        with pytest.raises(NotFound):
            await backfill.start(connection, "unknown", now - HOUR, now)


async def test_a_pause_records_nothing_over_what_a_backfill_has_made(database: Database) -> None:
    await save(database, "s", every_seconds=3600)
    await make_due(database, "s", 12 * HOUR)
    await database.run_in_transaction(lambda connection: schedule_changes.set_paused(connection, "s", True))
    async with database.connection() as connection:
        await connection.execute("DELETE FROM mainspring.fires")
    await make_due(database, "s", 12 * HOUR)
    await start(database, 6, parallel=3)
    await BackfillDue(database, lambda: None).run_once()
    await database.run_in_transaction(lambda connection: schedule_changes.set_paused(connection, "s", False))
    rows = await fires_of(database, "s")
    assert sum(row["nominal_times"] for row in rows) == 12
    assert [(row["nominal_times"], row["skipped"]) for row in rows if row["skipped"]] == [(3, "paused"), (6, "paused")]


async def test_a_catch_up_records_nothing_over_what_a_backfill_has_made(database: Database) -> None:
    await save(database, "s", every_seconds=3600, misfire=Misfire.FIRE_ONCE)
    await make_due(database, "s", 12 * HOUR)
    await start(database, 12, parallel=1)
    await BackfillDue(database, lambda: None).run_once()
    await firing(database).run_once()
    rows = await fires_of(database, "s")
    assert sum(row["nominal_times"] for row in rows) == 12
    assert len([row for row in rows if row["job_id"]]) == 2


async def test_a_backfill_under_another_trigger_keeps_the_count_of_what_was_skipped(database: Database) -> None:
    await save(database, "s", cron="*/5 * * * *", misfire=Misfire.SKIP)
    await make_due(database, "s", 5 * HOUR)
    await firing(database).run_once()
    before = sum(row["nominal_times"] for row in await fires_of(database, "s"))
    await save(database, "s", cron="0 * * * *", misfire=Misfire.SKIP)
    await start(database, 2, parallel=100)
    await BackfillDue(database, lambda: None).run_once()
    assert sum(row["nominal_times"] for row in await fires_of(database, "s")) == before


async def test_nothing_is_backfilled_outside_of_the_schedules_own_bounds(database: Database) -> None:
    async with database.connection() as connection:
        now = await fleet.now(connection)
    await save(database, "s", every_seconds=3600, start_at=now - 2 * HOUR, end_at=now)
    assert (await start(database, 10)).nominal_times == 2


async def test_a_backfills_jobs_are_no_last_runs_of_the_schedule(database: Database) -> None:
    """Not for the next run, not for the pause after failures, and not for who asks whether it ever succeeds."""
    await save(database, "s", every_seconds=3600, overlap=Overlap.ALLOW, pause_after=1)
    await start(database, 2, parallel=2)
    await BackfillDue(database, lambda: None).run_once()
    succeeded, dead = await jobs_of(database, "s")
    async with database.connection() as connection:
        own_dead = await put_job(connection, State.DEAD, schedule="s")
        await _succeed(connection, succeeded["id"])
        await connection.execute(
            "UPDATE mainspring.live_jobs SET state = 'dead', reason = 'exhausted', finished_at = clock_timestamp()"
            " WHERE id = $1",
            dead["id"],
        )
        for is_success, expected in ((False, own_dead), (True, None)):
            last = await runs.last_run(connection, "s", uuid4(), succeeded=is_success)
            assert (last.job_id if last else None) == expected
        assert await fires.failing(connection, {"s": 1}) == {"s"}
        assert [one.last_success for one in await fire_audit.page(connection, "", 10)] == [None]


async def _succeed(connection: Conn, job_id: UUID) -> None:
    claim_id, lease = uuid4(), HOUR
    await connection.execute("UPDATE mainspring.live_jobs SET state = 'enqueued' WHERE id = $1", job_id)
    fence = await connection.fetchval("SELECT fence FROM mainspring.live_jobs WHERE id = $1", job_id)
    answer = await claims.claim(connection, [JobRef(job_id, fence)], claim_id, claims.Claimant(uuid4(), ("t",)), lease)
    (job,) = answer.claimed
    assert await settle.succeed(connection, [settle.Success(job_id, job.fence, claim_id, "1")])


async def test_a_backfill_of_a_row_with_a_bad_name_waits_and_the_others_go_on(database: Database) -> None:
    for name in ("other", "s"):
        await save(database, name, every_seconds=3600)
    await start(database, 2)
    async with database.transaction() as connection:
        await connection.execute("UPDATE mainspring.schedules SET queue = '#.a/b' WHERE name = 's'")
        now = await fleet.now(connection)
        await backfill.start(connection, "other", now - 2 * HOUR, now, 1)
    loop = BackfillDue(database, lambda: None)
    for _ in range(3):
        await loop.run_once()
    assert (len(await jobs_of(database, "s")), len(await jobs_of(database, "other"))) == (0, 1)
