"""Firing: each nominal time once, whoever fires; a bad schedule stops no other; edits and pauses."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest

from mainspring.domain.definition import ScheduleDefinition
from mainspring.domain.firing import Misfire, Overlap
from mainspring.domain.states import State
from mainspring.store import fleet, schedules
from mainspring.store.pool import Database
from mainspring_services.scheduler.fire_due import FireDue

from .rows import put_job


async def save(database: Database, name: str, **fields: Any) -> None:
    definition = ScheduleDefinition(name, "t", **{"overlap": Overlap.ALLOW, **fields})

    async def work(connection: Any) -> None:
        await schedules.save(connection, definition, await fleet.now(connection))

    await database.run_in_transaction(work)


async def make_due(database: Database, name: str, ago: timedelta) -> datetime:
    """Move the schedule's next nominal time into the past, onto its own grid."""
    async with database.connection() as connection:
        row = await schedules.get(connection, name)
        assert row is not None
        definition = row.definition()
        trigger = definition.trigger(row.anchor)
        nominal_at = trigger.next_after(await fleet.now(connection) - ago)
        assert nominal_at is not None
        await connection.execute(
            "UPDATE mainspring.schedules SET next_nominal_at = $2, fires_at = $2 WHERE name = $1", name, nominal_at
        )
        return nominal_at


async def fires(database: Database, name: str) -> list[Any]:
    async with database.connection() as connection:
        return await schedules.fires_of(connection, name, None, 1000)


async def test_schedulers_side_by_side_fire_each_nominal_time_once(database: Database) -> None:
    for number in range(10):
        await save(database, f"s{number}", every_seconds=60, misfire=Misfire.FIRE_ALL)
        await make_due(database, f"s{number}", timedelta(minutes=5))
    loops = [FireDue(database, lambda: None) for _ in range(4)]
    await asyncio.gather(*(one.run_once() for one in loops))
    async with database.connection() as connection:
        pairs = await connection.fetch(
            "SELECT schedule, nominal_at, count(*) AS jobs FROM mainspring.jobs GROUP BY 1, 2"
        )
    assert len(pairs) == 50
    assert {row["jobs"] for row in pairs} == {1}


async def test_after_a_restore_to_an_earlier_point_what_was_fired_isnt_fired_again(database: Database) -> None:
    await save(database, "s", every_seconds=60, misfire=Misfire.FIRE_ALL)
    loop = FireDue(database, lambda: None)
    await make_due(database, "s", timedelta(minutes=3))
    await loop.run_once()
    await make_due(database, "s", timedelta(minutes=3))
    await loop.run_once()
    async with database.connection() as connection:
        jobs = await connection.fetchval("SELECT count(*) FROM mainspring.jobs")
    assert jobs == len([row for row in await fires(database, "s") if row["job_id"]]) == 3


async def test_every_missed_nominal_time_is_fired_or_recorded_as_skipped(database: Database) -> None:
    await save(database, "s", every_seconds=60, misfire=Misfire.FIRE_ONCE)
    await make_due(database, "s", timedelta(minutes=30))
    await FireDue(database, lambda: None).run_once()
    rows = await fires(database, "s")
    assert sum(row["nominal_times"] for row in rows) == 30
    assert len([row for row in rows if row["job_id"]]) == 1
    assert {row["skipped"] for row in rows if not row["job_id"]} == {"superseded"}


async def test_c11_one_bad_schedule_is_set_aside_and_the_others_fire(database: Database) -> None:
    for number in range(10):
        await save(database, f"good{number}", every_seconds=60)
        await make_due(database, f"good{number}", timedelta(seconds=70))
    await save(database, "bad", every_seconds=60)
    await make_due(database, "bad", timedelta(seconds=70))
    async with database.connection() as connection:
        await connection.execute("UPDATE mainspring.schedules SET timezone = 'Mars/Phobos' WHERE name = 'bad'")
    loop = FireDue(database, lambda: None)
    await loop.run_once()
    await loop.run_once()
    async with database.connection() as connection:
        assert await connection.fetchval("SELECT count(DISTINCT schedule) FROM mainspring.jobs") == 10
        broken = await connection.fetchval("SELECT broken FROM mainspring.schedules WHERE name = 'bad'")
    assert "timezone" in broken


async def test_a_resume_catches_nothing_up(database: Database) -> None:
    await save(database, "s", every_seconds=60, paused=True)
    await make_due(database, "s", timedelta(minutes=10))
    loop = FireDue(database, lambda: None)
    assert (await loop.run_once()).done == 0
    async with database.transaction() as connection:
        one = await schedules.lock(connection, "s")
        assert one is not None
        now = await fleet.now(connection)
        await schedules.set_paused(connection, one, False, None, now)
        after = await schedules.get(connection, "s")
    assert after is not None
    assert after.next_nominal_at is not None
    assert after.next_nominal_at > now
    assert (await loop.run_once()).done == 0


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
    await FireDue(database, lambda: None).run_once()
    async with database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM mainspring.jobs WHERE schedule = 's'") == jobs
        cancelled = await connection.fetchval("SELECT cancel_requested FROM mainspring.jobs WHERE id = $1", earlier)
    assert cancelled == (overlap is Overlap.CANCEL_RUNNING)
