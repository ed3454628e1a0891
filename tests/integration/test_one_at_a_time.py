"""Under the policies that queue or cancel, a schedule's jobs run one at a time: the next is kept back until then."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mainspring.domain.firing import Misfire, Overlap
from mainspring.domain.states import State
from mainspring.store.pool import Database
from mainspring_services.scheduler.let_go import LetGo

from .rows import put_job
from .schedules import firing, jobs_of, make_due, save

HOUR = timedelta(hours=1)


async def due_jobs(database: Database) -> int:
    async with database.connection() as connection:
        count: int = await connection.fetchval(
            "SELECT count(*) FROM mainspring.live_jobs WHERE schedule = 's' AND due_at <= clock_timestamp()"
            " AND state = 'scheduled'"
        )
    return count


@pytest.mark.parametrize("overlap", [Overlap.QUEUE_ONE, Overlap.QUEUE_ALL, Overlap.CANCEL_RUNNING])
async def test_a_job_waits_until_the_one_before_has_ended(database: Database, overlap: Overlap) -> None:
    await save(database, "s", every_seconds=3600, overlap=overlap)
    async with database.connection() as connection:
        earlier = await put_job(connection, State.RUNNING, schedule="s")
    await make_due(database, "s", HOUR)
    await firing(database).run_once()
    let_go = LetGo(database, lambda: None)
    await let_go.run_once()
    assert await due_jobs(database) == 0
    async with database.connection() as connection:
        await connection.execute("DELETE FROM mainspring.live_jobs WHERE id = $1", earlier)
    await let_go.run_once()
    assert await due_jobs(database) == 1


async def test_those_that_are_caught_up_run_in_the_order_of_their_nominal_times(database: Database) -> None:
    await save(database, "s", every_seconds=3600, overlap=Overlap.QUEUE_ALL, misfire=Misfire.FIRE_ALL)
    await make_due(database, "s", 3 * HOUR)
    await firing(database).run_once()
    let_go = LetGo(database, lambda: None)
    order = []
    for _ in range(3):
        await let_go.run_once()
        await let_go.run_once()
        assert await due_jobs(database) == 1
        async with database.connection() as connection:
            order.append(
                await connection.fetchval(
                    "DELETE FROM mainspring.live_jobs WHERE due_at <= clock_timestamp() RETURNING id"
                )
            )
    assert order == sorted(order)


async def test_a_dead_job_holds_nothing_up_and_a_deleted_schedule_neither(database: Database) -> None:
    await save(database, "s", every_seconds=3600, overlap=Overlap.QUEUE_ALL)
    async with database.connection() as connection:
        await put_job(connection, State.DEAD, schedule="s")
        earlier = await put_job(connection, State.RETRYING, schedule="s")
    await make_due(database, "s", HOUR)
    await firing(database).run_once()
    async with database.connection() as connection:
        await connection.execute("DELETE FROM mainspring.schedules")
        await connection.execute("DELETE FROM mainspring.live_jobs WHERE id = $1", earlier)
    await LetGo(database, lambda: None).run_once()
    assert await due_jobs(database) == 1


async def test_under_allow_nothing_is_kept_back(database: Database) -> None:
    await save(database, "s", every_seconds=3600, overlap=Overlap.ALLOW, misfire=Misfire.FIRE_ALL)
    await make_due(database, "s", 3 * HOUR)
    await firing(database).run_once()
    assert await due_jobs(database) == len(await jobs_of(database, "s")) == 3
