"""The claim is total: every reference gets a verdict, and any copy of a ticket wins at most once."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from mainspring.domain.job import JobRef
from mainspring.domain.states import State
from mainspring.store import claims, queues
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
        finished = JobRef(await put_job(connection, State.SUCCEEDED), 7)
        never = JobRef(uuid4(), 1)
        answer = await claim(connection, paused, limited, unknown_task, finished, never)
        assert answer.returned == {"paused": [paused], "limited": [limited], "unknown_task": [unknown_task]}
        assert (answer.stale, answer.unknown, answer.claimed) == ([finished], [never], [])
        for ref in (paused, limited, unknown_task):
            row = await live(connection, ref.id)
            assert (row["state"], row["attempts_used"], row["fence"]) == ("scheduled", 1, 8)


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
