"""The claim is total: every reference gets a verdict, and any copy of a ticket wins at most once."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from mainspring.domain.ids import uuid7
from mainspring.domain.job import JobRef
from mainspring.domain.states import State
from mainspring.store import claims, fleet, queues
from mainspring.store.claims import ClaimAnswer, Claimant
from mainspring.store.pool import Conn, Database, connect

from .rows import job, live, put_job

LEASE = timedelta(seconds=30)
ME = Claimant(uuid4(), ("t",))


async def claim(connection: Conn, *refs: JobRef, claim_id: UUID | None = None) -> ClaimAnswer:
    return await claims.claim(connection, refs, claim_id or uuid4(), ME, LEASE)


async def test_a_ticket_wins_once_however_many_copies_arrive(database: Database) -> None:
    async with database.connection() as connection:
        refs = [JobRef(await put_job(connection, State.ENQUEUED), 7) for _ in range(50)]
    answers = await asyncio.gather(*(database.run(lambda connection: claim(connection, *refs)) for _ in range(6)))
    claimed = [one.id for answer in answers for one in answer.claimed]
    assert sorted(claimed) == sorted(ref.id for ref in refs)
    assert sum(len(answer.stale) for answer in answers) == 5 * 50


@pytest.mark.parametrize("state", [State.ENQUEUED, State.ADMITTED, State.RETRYING])
async def test_an_older_ticket_is_stale(database: Database, state: State) -> None:
    async with database.connection() as connection:
        job_id = await put_job(connection, state)
        answer = await claim(connection, JobRef(job_id, 6))
        assert answer.stale == [JobRef(job_id, 6)]
        assert (await live(connection, job_id))["state"] == state


async def test_a_claim_asked_again_with_its_id_answers_the_same(database: Database) -> None:
    claim_id = uuid4()
    async with database.connection() as connection:
        ref = JobRef(await put_job(connection, State.ENQUEUED), 7)
        (first,) = (await claim(connection, ref, claim_id=claim_id)).claimed
        (again,) = (await claim(connection, ref, claim_id=claim_id)).claimed
        assert again == first
        assert (await live(connection, ref.id))["attempts_used"] == 2
        assert (await claim(connection, ref)).stale == [ref]


async def test_every_other_end_is_told(database: Database) -> None:
    async with database.connection() as connection:
        paused = JobRef(await put_job(connection, State.ENQUEUED, queue="paused"), 7)
        await queues.pause(connection, "paused")
        limited = JobRef(await put_job(connection, State.ENQUEUED, queue="limited"), 7)
        await queues.set_concurrency(connection, "limited", 1)
        unknown_task = JobRef(await put_job(connection, State.ENQUEUED, task="elsewhere"), 7)
        no_worker = JobRef(await put_job(connection, State.ENQUEUED, task="nowhere"), 7)
        other = fleet.Worker(uuid4(), "h", 1, "v", ("q",), ("elsewhere",), (), 1, 1)
        await fleet.beat_worker(connection, other)
        finished = JobRef(await put_job(connection, State.SUCCEEDED), 7)
        never = JobRef(uuid4(), 1)
        answer = await claim(connection, paused, limited, unknown_task, no_worker, finished, never)
        returned = {"paused": [paused], "limited": [limited], "unknown_task": [unknown_task]}
        assert answer.returned == returned | {"no_worker": [no_worker]}
        assert (answer.stale, answer.unknown, answer.claimed) == ([finished], [never], [])
        for ref in (paused, limited, unknown_task, no_worker):
            row = await live(connection, ref.id)
            assert (row["state"], row["attempts_used"], row["fence"]) == ("scheduled", 1, 8)


@pytest.mark.parametrize(("hours", "minutes"), [(0, 1), (1, 30), (100, 60)])
async def test_what_no_worker_knows_is_tried_again_after_half_of_its_age(
    database: Database, hours: int, minutes: int
) -> None:
    async with database.connection() as connection:
        made_at = datetime.now(UTC) - timedelta(hours=hours)
        job_id = uuid7(int(made_at.timestamp() * 1000), 1)
        await claim(connection, JobRef(await put_job(connection, State.ENQUEUED, task="nowhere", id=job_id), 7))
        row = await live(connection, job_id)
        assert row["reason"] == "no_worker"
        assert abs(row["due_at"] - datetime.now(UTC) - timedelta(minutes=minutes)) < timedelta(seconds=30)


@pytest.mark.parametrize(("age", "delay"), [(0, 1), (10, 5), (3600, 15)])
async def test_what_others_know_comes_back_ever_later(database: Database, age: int, delay: int) -> None:
    async with database.connection() as connection:
        await fleet.beat_worker(connection, fleet.Worker(uuid4(), "h", 1, "v", ("q",), ("elsewhere",), (), 1, 1))
        ref = JobRef(await put_job(connection, State.ENQUEUED, task="elsewhere"), 7)
        await connection.execute(
            "UPDATE mainspring.job_details SET run_at = clock_timestamp() - make_interval(secs => $1)", float(age)
        )
        assert (await claim(connection, ref)).returned == {"unknown_task": [ref]}
        row = await live(connection, ref.id)
        assert abs(row["due_at"] - datetime.now(UTC) - timedelta(seconds=delay)) < timedelta(seconds=0.9)


async def test_a_worker_that_comes_calls_what_waits_for_it(database: Database) -> None:
    async with database.connection() as connection:
        refs = [JobRef(await put_job(connection, State.ENQUEUED, task=name), 7) for name in ("new", "new", "other")]
        await claim(connection, *refs)
        assert [await fleet.call_waiting(connection, ["new", "newer"], most=1) for _ in range(3)] == [1, 1, 0]
        due = [(await live(connection, ref.id))["due_at"] <= datetime.now(UTC) for ref in refs]
        assert due == [True, True, False]


async def test_a_complete_key_ends_the_job_without_running_it(database: Database) -> None:
    async with database.connection() as connection:
        ref = JobRef(await put_job(connection, State.ENQUEUED, idempotency_key="k"), 7)
        await connection.execute(
            "INSERT INTO mainspring.completions (idempotency_key, job_id, fence) VALUES ('k', $1, 1)", uuid4()
        )
        answer = await claim(connection, ref)
        assert (answer.duplicates, answer.claimed) == ([ref], [])
        row = await job(connection, ref.id)
        assert (row["state"], row["reason"]) == ("succeeded", "duplicate")


async def test_p03_a_lease_counts_from_the_clock_and_not_from_the_transactions_start(database: Database) -> None:
    async with database.transaction() as connection:
        ref = JobRef(await put_job(connection, State.ENQUEUED), 7)
        await connection.execute("SELECT pg_sleep(1.5)")
        await claim(connection, ref)
        left = await connection.fetchval(
            "SELECT extract(epoch FROM lease_until - clock_timestamp()) FROM mainspring.live_jobs WHERE id = $1", ref.id
        )
    assert 29 <= left <= 30


async def test_a_claim_waits_for_an_uncommitted_release_and_then_finds_it(
    database: Database, database_url: str
) -> None:
    """Statement 1c of the protocol's experiments: guards are tested on what the lock returned."""
    async with database.connection() as connection:
        job_id = await put_job(connection, State.SCHEDULED)
    other = await connect(database_url, "other")
    try:
        transaction = other.transaction()
        await transaction.start()
        await other.execute(
            "UPDATE mainspring.live_jobs SET state = 'enqueued', fence = fence + 1 WHERE id = $1", job_id
        )
        claiming = asyncio.create_task(database.run(lambda connection: claim(connection, JobRef(job_id, 8))))
        await _until_waiting(other, job_id)
        await transaction.commit()
        answer = await claiming
    finally:
        await other.close()
    assert [one.id for one in answer.claimed] == [job_id]


async def _until_waiting(connection: Conn, job_id: UUID) -> None:
    async with asyncio.timeout(5):
        while not await connection.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        ):
            await asyncio.sleep(0.01)
