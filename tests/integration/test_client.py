"""The Python client's results, and a task run in place on a real connection."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from mainspring import InvalidInput, JobContext, JobFailed, JobRequest, NotFinished, NotFound, RetryPolicy, task
from mainspring.client import Client
from mainspring.domain.definition import ScheduleDefinition
from mainspring.domain.firing import Overlap
from mainspring.domain.states import State
from mainspring.runtime import schedule_changes
from mainspring.store.pool import Conn, Database
from mainspring.testing import run_inline

from .rows import put_job
from .system import System


@task("ledger.write", retry=RetryPolicy(max_attempts=3))
async def write(ctx: JobContext, *, failures: int) -> int:
    """Writes, and fails after its write until it has failed often enough."""
    async with ctx.transaction() as connection:
        await connection.execute("INSERT INTO ledger VALUES ($1)", ctx.attempt)
    if ctx.attempt <= failures:
        raise ValueError("after the write")
    return ctx.attempt


async def test_run_in_place_a_failed_attempt_leaves_no_write(database: Database) -> None:
    async with database.connection() as connection:
        await connection.execute("CREATE TABLE ledger (attempt int)")
        run = await run_inline(write, write.request(failures=2), connection=connection)
        rows: list[Any] = await connection.fetch("SELECT attempt FROM ledger")
    assert (run.state, run.result, [row["attempt"] for row in rows]) == ("succeeded", 3, [3])


async def test_run_in_place_a_commit_that_fails_is_a_failed_attempt(database: Database) -> None:
    async with database.connection() as connection:
        await connection.execute("CREATE TABLE ledger (attempt int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
        await connection.execute("INSERT INTO ledger VALUES (1)")
        run = await run_inline(write, write.request(failures=0), connection=connection)
    assert [attempt.outcome for attempt in run.attempts] == ["failed", "succeeded"]
    assert run.result == 2


async def test_run_in_place_without_a_connection_a_transaction_is_an_error_that_says_so() -> None:
    run = await run_inline(write, write.request(failures=0))
    assert run.state == "dead"
    assert "give run_inline a connection" in str(run.attempts[0].error)


async def test_a_result_is_there_once_the_job_has_succeeded(database: Database, database_url: str) -> None:
    async with database.connection() as connection:
        done = await put_job(connection, State.SUCCEEDED, result='{"a": 1}')
        empty = await put_job(connection, State.SUCCEEDED)
        dead = await put_job(connection, State.DEAD)
    async with Client(database_url) as client:
        assert await client.result(done) == {"a": 1}
        assert await client.result(empty) is None
        with pytest.raises(JobFailed, match="exhausted"):
            await client.result(dead)
        with pytest.raises(NotFound):
            await client.result(uuid4())
        waiting = await client.submit(JobRequest("t"))
        with pytest.raises(NotFinished, match="scheduled"):
            await client.result(waiting, wait=timedelta(milliseconds=200))


async def test_a_result_is_waited_for(system: System) -> None:
    system.worker()
    system.ready()
    async with Client(system.database_url) as client:
        job_id = await client.submit(JobRequest("fleet.nap", '{"seconds": 0.3}', queue="fleet"))
        assert await client.result(job_id, wait=timedelta(seconds=30)) == 1


async def test_schedules_are_made_changed_and_triggered(database: Database, database_url: str) -> None:
    async with Client(database_url) as client:
        made = await client.schedules.save(
            "nightly", write.request(failures=0), cron="30 2 * * *", timezone="Europe/Berlin", overlap=Overlap.ALLOW
        )
        assert (made.definition.task, made.definition.cron) == ("ledger.write", "30 2 * * *")
        assert made.next_nominal_at is not None
        assert await client.schedules.get("nightly") == made
        again = await client.schedules.save("nightly", write.request(failures=1), every=timedelta(hours=1))
        assert (again.definition.cron, again.definition.every_seconds) == (None, 3600)
        assert [one.name for one in await client.schedules.list()] == ["nightly"]
        assert (await client.schedules.pause("nightly", "a deploy")).pause_note == "a deploy"
        assert (await client.schedules.resume("nightly")).next_nominal_at is not None
        first, second = [await client.schedules.trigger("nightly", idempotency_key="once") for _ in range(2)]
        assert first == second
        assert await client.state(first) is State.SCHEDULED
        await client.schedules.delete("nightly")
        with pytest.raises(NotFound):
            await client.schedules.get("nightly")
        with pytest.raises(InvalidInput, match="cron"):
            await client.schedules.save("bad", write.request(failures=0), cron="0 0 30 2 *")


async def test_a_schedule_exists_if_the_caller_s_transaction_commits(database: Database, database_url: str) -> None:
    async with Client(database_url) as client, database.connection() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await client.schedules.save("mine", write.request(failures=0), cron="@daily", connection=connection)
        await transaction.rollback()
        assert await client.schedules.list() == []


async def test_schedules_of_one_name_that_are_made_at_once_are_one(database: Database) -> None:
    async def make(connection: Conn) -> None:
        await schedule_changes.save(connection, ScheduleDefinition("one", "t", cron="@daily"), is_new=True)

    made = await asyncio.gather(*(database.run_in_transaction(make) for _ in range(10)), return_exceptions=True)
    assert sorted(type(one).__name__ for one in made) == ["Conflict"] * 9 + ["NoneType"]
