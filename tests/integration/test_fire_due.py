"""Firing: each nominal time once, whoever fires; a bad schedule stops no other; edits and pauses."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import pytest

from mainspring.domain.calendar import Calendar
from mainspring.domain.errors import Conflict, InvalidInput
from mainspring.domain.firing import Misfire, Overlap
from mainspring.domain.states import State
from mainspring.runtime import calendar_changes, schedule_changes
from mainspring.store import fleet
from mainspring.store.pool import Database

from .rows import put_job
from .schedules import fires_of, firing, make_due, save, stored


async def test_schedulers_side_by_side_fire_each_nominal_time_once(database: Database) -> None:
    for number in range(10):
        await save(database, f"s{number}", every_seconds=60, misfire=Misfire.FIRE_ALL)
        await make_due(database, f"s{number}", timedelta(minutes=5))
    loops = [firing(database) for _ in range(4)]
    await asyncio.gather(*(one.run_once() for one in loops))
    async with database.connection() as connection:
        pairs = await connection.fetch(
            "SELECT schedule, nominal_at, count(*) AS jobs FROM mainspring.jobs GROUP BY 1, 2"
        )
    assert len(pairs) == 50
    assert {row["jobs"] for row in pairs} == {1}


async def test_after_a_restore_to_an_earlier_point_what_was_fired_isnt_fired_again(database: Database) -> None:
    await save(database, "s", every_seconds=60, misfire=Misfire.FIRE_ALL)
    loop = firing(database)
    await make_due(database, "s", timedelta(minutes=3))
    await loop.run_once()
    await make_due(database, "s", timedelta(minutes=3))
    await loop.run_once()
    async with database.connection() as connection:
        jobs = await connection.fetchval("SELECT count(*) FROM mainspring.jobs")
    assert jobs == len([row for row in await fires_of(database, "s") if row["job_id"]]) == 3


async def test_every_missed_nominal_time_is_fired_or_recorded_as_skipped(database: Database) -> None:
    await save(database, "s", every_seconds=60, misfire=Misfire.FIRE_ONCE)
    await make_due(database, "s", timedelta(minutes=30))
    await firing(database).run_once()
    rows = await fires_of(database, "s")
    assert sum(row["nominal_times"] for row in rows) == 30
    assert len([row for row in rows if row["job_id"]]) == 1
    assert {row["skipped"] for row in rows if not row["job_id"]} == {"superseded"}


@pytest.mark.parametrize(("field", "value"), [("timezone", "Mars/Phobos"), ("queue", "#.a/b"), ("task", "Äh")])
async def test_c11_one_bad_schedule_is_set_aside_and_the_others_fire(
    database: Database, field: str, value: str
) -> None:
    for number in range(10):
        await save(database, f"good{number}", every_seconds=60)
        await make_due(database, f"good{number}", timedelta(seconds=70))
    await save(database, "bad", every_seconds=60)
    await make_due(database, "bad", timedelta(seconds=70))
    async with database.connection() as connection:
        await connection.execute(f"UPDATE mainspring.schedules SET {field} = $1 WHERE name = 'bad'", value)
    loop = firing(database)
    while (await loop.run_once()).done:
        pass
    async with database.connection() as connection:
        assert await connection.fetchval("SELECT count(DISTINCT schedule) FROM mainspring.jobs") == 10
        broken = await connection.fetchval("SELECT broken FROM mainspring.schedules WHERE name = 'bad'")
    assert broken.startswith(f"{field}: ")


async def test_a_resume_catches_nothing_up(database: Database) -> None:
    await save(database, "s", every_seconds=60, paused=True)
    await make_due(database, "s", timedelta(minutes=10))
    loop = firing(database)
    assert (await loop.run_once()).done == 0
    async with database.transaction() as connection:
        now = await fleet.now(connection)
        after = await schedule_changes.set_paused(connection, "s", False)
    assert after.next_nominal_at is not None
    assert after.next_nominal_at > now
    assert (await loop.run_once()).done == 0
    (passed,) = await fires_of(database, "s")
    assert (passed["nominal_times"], passed["skipped"]) == (10, "paused")


@pytest.mark.parametrize(
    ("overlap", "state", "jobs"),
    [
        (Overlap.SKIP, State.SCHEDULED, 1),
        (Overlap.SKIP, State.RUNNING, 1),
        (Overlap.ALLOW, State.RUNNING, 2),
        (Overlap.QUEUE_ONE, State.SCHEDULED, 1),
        (Overlap.QUEUE_ONE, State.RUNNING, 2),
        (Overlap.QUEUE_ALL, State.SCHEDULED, 2),
        (Overlap.CANCEL_RUNNING, State.RUNNING, 2),
    ],
)
async def test_the_overlap_policy_counts_jobs_that_wait_or_run(
    database: Database, overlap: Overlap, state: State, jobs: int
) -> None:
    await save(database, "s", every_seconds=3600, overlap=overlap)
    async with database.connection() as connection:
        earlier = await put_job(connection, state, schedule="s")
    await make_due(database, "s", timedelta(hours=1))
    await firing(database).run_once()
    async with database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM mainspring.jobs WHERE schedule = 's'") == jobs
        cancelled = await connection.fetchval("SELECT cancel_requested FROM mainspring.jobs WHERE id = $1", earlier)
    assert cancelled == (overlap is Overlap.CANCEL_RUNNING)


async def test_a_schedule_that_is_looked_at_before_its_planned_instant_waits_for_it(database: Database) -> None:
    await save(database, "s", every_seconds=3600, jitter=timedelta(minutes=50), misfire=Misfire.SKIP)
    nominal_at = await make_due(database, "s", timedelta(seconds=1))
    assert (await firing(database).run_once()).done == 1
    assert not await fires_of(database, "s")
    row = (await stored(database, "s")).row
    assert row["next_nominal_at"] == nominal_at
    assert row["fires_at"] > nominal_at
    assert (await firing(database).run_once()).done == 0


async def test_after_failures_in_a_row_a_schedule_pauses_itself_and_a_resume_forgets_them(database: Database) -> None:
    await save(database, "s", every_seconds=3600, pause_after=2)
    await save(database, "steady", every_seconds=3600)
    async with database.connection() as connection:
        for name in ("s", "s", "steady", "steady"):
            await put_job(connection, State.DEAD, schedule=name)
    for name in ("s", "steady"):
        await make_due(database, name, timedelta(minutes=59))
    loop = firing(database)
    await loop.run_once()
    row = (await stored(database, "s")).row
    assert (row["paused"], row["pause_note"]) == (True, "paused itself after 2 failures in a row")
    assert [row["skipped"] for row in await fires_of(database, "s")] == ["failures"]
    assert [row["skipped"] for row in await fires_of(database, "steady")] == [None]
    await database.run_in_transaction(lambda connection: schedule_changes.set_paused(connection, "s", False))
    resumed = await stored(database, "s")
    await make_due(database, "s", timedelta(minutes=59))
    async with database.connection() as connection:
        await connection.execute("DELETE FROM mainspring.fires")
        await connection.execute("UPDATE mainspring.schedules SET active_since = $1", resumed.row["active_since"])
    await loop.run_once()
    assert [row["skipped"] for row in await fires_of(database, "s")] == [None]


async def test_one_success_among_the_failures_keeps_it_going(database: Database) -> None:
    await save(database, "s", every_seconds=3600, pause_after=2)
    async with database.connection() as connection:
        await put_job(connection, State.DEAD, schedule="s")
        await put_job(connection, State.SUCCEEDED, schedule="s")
        await put_job(connection, State.DEAD, schedule="s")
    await make_due(database, "s", timedelta(minutes=59))
    await firing(database).run_once()
    assert [row["skipped"] for row in await fires_of(database, "s")] == [None]


async def test_an_edit_of_the_payload_drops_no_fire_that_is_late(database: Database) -> None:
    await save(database, "s", every_seconds=60, misfire=Misfire.FIRE_ALL)
    waited_for = await make_due(database, "s", timedelta(minutes=3))
    await save(database, "s", every_seconds=60, misfire=Misfire.FIRE_ALL, payload='{"edited": true}')
    assert (await stored(database, "s")).next_nominal_at == waited_for
    await firing(database).run_once()
    assert [row["skipped"] for row in await fires_of(database, "s")] == [None, None, None]


async def test_f04_an_edit_of_the_trigger_records_what_it_passes_over(database: Database) -> None:
    await save(database, "s", every_seconds=60)
    await make_due(database, "s", timedelta(minutes=3))
    await save(database, "s", cron="0 19 * * *")
    async with database.connection() as connection:
        now = await fleet.now(connection)
    nominal_at = (await stored(database, "s")).next_nominal_at
    assert nominal_at is not None
    assert nominal_at > now
    (row,) = await fires_of(database, "s")
    assert (row["nominal_times"], row["skipped"]) == (3, "edited")


async def test_a_schedule_leaves_out_the_days_of_its_calendars(database: Database) -> None:
    async with database.transaction() as connection:
        tomorrow = await fleet.now(connection) + timedelta(days=1)
        await calendar_changes.save(connection, Calendar("closed", (f"{tomorrow:%Y-%m-%d}",)))
    await save(database, "s", cron="0 0 * * *", calendars=("closed",))
    await save(database, "all", cron="0 0 * * *")

    async def next_of(name: str) -> datetime:
        nominal_at = (await stored(database, name)).next_nominal_at
        assert nominal_at is not None
        return nominal_at

    assert await next_of("s") == await next_of("all") + timedelta(days=1)
    with pytest.raises(InvalidInput, match=r"calendars\.0"):
        await save(database, "bad", cron="0 0 * * *", calendars=("unknown",))
    with pytest.raises(Conflict):
        await database.run_in_transaction(lambda connection: calendar_changes.delete(connection, "closed"))
    # With another day in the calendar the schedules that name it are computed anew.
    await database.run_in_transaction(
        lambda connection: calendar_changes.save(connection, Calendar("closed", ("02-29",)))
    )
    assert await next_of("s") == await next_of("all")


async def test_an_interval_keeps_its_phase_from_its_first_fire_on(database: Database) -> None:
    await save(database, "s", every_seconds=60)
    one = await stored(database, "s")
    assert one.next_nominal_at == one.anchor + timedelta(seconds=60)
