"""Submitting: a key gives one job and one answer; a transaction's jobs exist if and only if it commits."""

from __future__ import annotations

import asyncio
import json

import asyncpg
import pytest

from mainspring.client import Client
from mainspring.domain.errors import InvalidInput
from mainspring.domain.job import JobRequest
from mainspring.domain.retry import RetryPolicy
from mainspring.runtime.submit import Accepted, Submitter
from mainspring.runtime.wake import Wake
from mainspring.store import fleet
from mainspring.store.pool import Database


@pytest.fixture
def submitter(database: Database) -> Submitter:
    return Submitter(database, Wake(database))


async def count_jobs(database: Database) -> int:
    async with database.connection() as connection:
        return int(await connection.fetchval("SELECT count(*) FROM mainspring.jobs"))


async def test_concurrent_submits_with_one_key_give_one_job_and_one_answer(
    database: Database, submitter: Submitter
) -> None:
    other = Submitter(database, Wake(database))
    request = JobRequest("t", '{"n": 1}', idempotency_key="k")
    answers = await asyncio.gather(*(one.submit(request) for one in (submitter, other) * 25))
    assert await count_jobs(database) == 1
    assert len({answer.answer for answer in answers}) == 1
    assert sum(not answer.is_replayed for answer in answers) == 1


async def test_a_key_with_another_request_is_refused_and_names_the_field(submitter: Submitter) -> None:
    await submitter.submit(JobRequest("t", '{"n": 1}', idempotency_key="k"))
    with pytest.raises(InvalidInput) as caught:
        await submitter.submit(JobRequest("t", '{"n": 2}', idempotency_key="k"))
    assert caught.value.field == "idempotency_key"


async def test_a_bad_neighbour_in_the_same_commit_costs_nobody_else(database: Database, submitter: Submitter) -> None:
    await submitter.submit(JobRequest("t", '{"n": 1}', idempotency_key="k"))
    requests = [JobRequest("t", '{"n": 2}', idempotency_key=key) for key in ("a", "k", "b", "c")]
    outcomes = await asyncio.gather(*map(submitter.submit, requests), return_exceptions=True)
    assert [isinstance(one, Accepted) for one in outcomes] == [True, False, True, True]
    assert await count_jobs(database) == 4


async def test_a_batch_is_all_or_nothing(database: Database, submitter: Submitter) -> None:
    await submitter.submit(JobRequest("t", '{"n": 1}', idempotency_key="k"))
    with pytest.raises(InvalidInput) as caught:
        await submitter.submit_many([JobRequest("t"), JobRequest("t", '{"n": 2}', idempotency_key="k")])
    assert caught.value.field == "jobs.1.idempotency_key"
    assert await count_jobs(database) == 1


async def test_d01_a_transaction_that_rolls_back_leaves_no_job(database: Database, database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        async with Client(database_url) as client:
            with pytest.raises(ZeroDivisionError):
                async with connection.transaction():
                    await client.submit(JobRequest("t", idempotency_key="k"), connection=connection)
                    raise ZeroDivisionError
            assert await count_jobs(database) == 0
            async with connection.transaction():
                await client.submit(JobRequest("t", idempotency_key="k"), connection=connection)
            assert await count_jobs(database) == 1
    finally:
        await connection.close()


async def test_what_is_left_out_comes_from_the_task_catalogue(database: Database, submitter: Submitter) -> None:
    entry = {
        "name": "billing.charge",
        "queue": "billing",
        "timeout_seconds": 30.0,
        "retry": RetryPolicy(max_attempts=7).as_json(),
        "payload_schema": {},
        "circuit": None,
        "requires": [],
    }
    await database.run(lambda connection: fleet.upsert_tasks(connection, [entry], "1"))
    plain = json.loads((await submitter.submit(JobRequest("billing.charge"))).answer)
    asked = json.loads((await submitter.submit(JobRequest("billing.charge", queue="other", priority=0))).answer)
    assert (plain["queue"], plain["timeout_seconds"], plain["max_attempts"], plain["priority"]) == ("billing", 30, 7, 5)
    assert (asked["queue"], asked["priority"]) == ("other", 0)


async def test_the_501st_queue_is_refused_and_nothing_is_stored(database: Database, submitter: Submitter) -> None:
    await submitter.submit_many([JobRequest("t", queue=f"q{number}") for number in range(500)])
    with pytest.raises(InvalidInput) as caught:
        await submitter.submit(JobRequest("t", queue="one-more"))
    assert caught.value.field == "queue"
    assert await count_jobs(database) == 500
