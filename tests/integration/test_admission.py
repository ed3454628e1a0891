"""Admission: a concurrency limit holds whoever asks, however many ask at once."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from mainspring.domain.job import JobRef
from mainspring.domain.states import State
from mainspring.store import admission, queues
from mainspring.store.admission import Admission
from mainspring.store.pool import Conn, Database

from .rows import live, put_job

LIMIT = 3


async def waiting(connection: Conn, count: int, state: State = State.ENQUEUED) -> list[JobRef]:
    refs = [JobRef(await put_job(connection, state), 7) for _ in range(count)]
    await queues.set_concurrency(connection, "q", LIMIT)
    return refs


async def admit(database: Database, refs: list[JobRef]) -> Admission:
    answer = await database.run_in_transaction(lambda connection: admission.admit(connection, "q", refs))
    assert answer is not None
    return answer


async def test_dispatchers_side_by_side_never_admit_more_than_the_limit(database: Database) -> None:
    async with database.connection() as connection:
        refs = await waiting(connection, 40)
    answers = await asyncio.gather(*(admit(database, refs[start::8]) for start in range(8)))
    assert sum(len(answer.admitted) for answer in answers) == LIMIT
    async with database.connection() as connection:
        states = await connection.fetch("SELECT state, count(*) AS jobs FROM mainspring.live_jobs GROUP BY state")
    assert {row["state"]: row["jobs"] for row in states} == {"admitted": LIMIT, "blocked": 40 - LIMIT}


async def test_running_jobs_hold_their_slots_expired_leases_included(database: Database) -> None:
    async with database.connection() as connection:
        for _ in range(LIMIT - 1):
            await put_job(connection, State.RUNNING)
        await connection.execute("UPDATE mainspring.live_jobs SET lease_until = '-infinity' WHERE state = 'running'")
        refs = await waiting(connection, 5)
    answer = await admit(database, refs)
    assert (len(answer.admitted), answer.blocked) == (1, 4)


async def test_a_retry_is_admitted_under_the_limit_too(database: Database) -> None:
    async with database.connection() as connection:
        refs = await waiting(connection, 5, State.RETRYING)
    answer = await admit(database, refs)
    assert (len(answer.admitted), answer.blocked, answer.stale) == (LIMIT, 2, 0)
    assert {ref.ticket for ref in answer.admitted} == {8}


async def test_a_stale_ticket_takes_no_slot(database: Database) -> None:
    async with database.connection() as connection:
        refs = await waiting(connection, 2)
    old = [ref._replace(ticket=6) for ref in refs]
    answer = await admit(database, [*old, *refs])
    assert ({ref.id for ref in answer.admitted}, answer.stale) == ({ref.id for ref in refs}, 2)


async def test_jobs_of_a_queue_that_was_resumed_meanwhile_are_left_as_they_are(database: Database) -> None:
    async with database.connection() as connection:
        ref = JobRef(await put_job(connection, State.ENQUEUED), 7)
        assert await admission.return_paused(connection, "q", [ref], timedelta(seconds=1)) is None
        assert (await live(connection, ref.id))["state"] == "enqueued"
        await queues.pause(connection, "q")
        assert await admission.return_paused(connection, "q", [ref], timedelta(seconds=1)) == 1
        assert (await live(connection, ref.id))["reason"] == "paused"
