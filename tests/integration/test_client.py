"""The Python client's results, and a task run in place on a real connection."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from mainspring import JobContext, JobFailed, JobRequest, NotFinished, NotFound, RetryPolicy, task
from mainspring.client import Client
from mainspring.domain.states import State
from mainspring.store.pool import Database
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
