"""Heartbeats and reclaim: one slow row never costs its neighbours, and only Postgres's clock ends a lease."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from mainspring.broker.publisher import Publisher
from mainspring.domain.states import State
from mainspring.runtime.clock import StepDetector
from mainspring.store import leases
from mainspring.store.leases import Beat, Hold
from mainspring.store.pool import Conn, Database, connect
from mainspring_services.scheduler.reclaim_expired import ReclaimExpired

from .rows import live, put_job

LEASE = timedelta(seconds=15)


async def hold_of(connection: Conn, job_id: UUID) -> Hold:
    row = await live(connection, job_id)
    return Hold(job_id, row["fence"], row["claim_id"])


async def running(connection: Conn, count: int, **columns: Any) -> list[Hold]:
    return [await hold_of(connection, await put_job(connection, State.RUNNING, **columns)) for _ in range(count)]


async def expire(connection: Conn) -> None:
    await connection.execute(
        "UPDATE mainspring.live_jobs SET lease_until = clock_timestamp() - interval '1 s' WHERE state = 'running'"
    )


async def test_a_beat_answers_extended_busy_or_gone(database: Database, database_url: str) -> None:
    async with database.connection() as connection:
        mine, settling, taken = await running(connection, 3)
    other = await connect(database_url, "other")
    try:
        transaction = other.transaction()
        await transaction.start()
        await other.execute("SELECT 1 FROM mainspring.live_jobs WHERE id = $1 FOR UPDATE", settling.id)
        stale = taken._replace(fence=taken.fence - 1)
        answers = await asyncio.wait_for(
            database.run(lambda connection: leases.extend(connection, [mine, settling, stale], LEASE)), 2
        )
        await transaction.rollback()
    finally:
        await other.close()
    assert answers == {mine.id: Beat.EXTENDED, settling.id: Beat.BUSY, taken.id: Beat.GONE}


async def test_another_claim_id_with_the_same_fence_is_gone(database: Database) -> None:
    async with database.connection() as connection:
        (mine,) = await running(connection, 1)
        forged = mine._replace(claim_id=UUID(int=1))
        assert await leases.extend(connection, [forged], LEASE) == {mine.id: Beat.GONE}


async def test_a_beat_carries_the_request_to_cancel(database: Database) -> None:
    async with database.connection() as connection:
        (mine,) = await running(connection, 1, cancel_requested=True)
        assert await leases.extend(connection, [mine], LEASE) == {mine.id: Beat.CANCEL_REQUESTED}


async def test_reclaim_passes_over_what_is_being_settled(database: Database, database_url: str) -> None:
    """Statement 10 of the protocol's experiments: the commit of a handler's transaction is under way."""
    async with database.connection() as connection:
        settling, lost = await running(connection, 2)
        await expire(connection)
    other = await connect(database_url, "other")
    try:
        transaction = other.transaction()
        await transaction.start()
        await other.execute("SELECT 1 FROM mainspring.live_jobs WHERE id = $1 FOR UPDATE", settling.id)
        async with database.transaction() as connection:
            expired = await asyncio.wait_for(leases.lock_expired(connection, 10), 2)
        await transaction.rollback()
    finally:
        await other.close()
    assert [one.hold for one in expired] == [lost]


async def test_two_schedulers_reclaim_each_lease_once(database: Database) -> None:
    async with database.connection() as connection:
        holds = await running(connection, 20)
        await expire(connection)

    async def reclaim() -> list[UUID]:
        async with database.transaction() as connection:
            expired = await leases.lock_expired(connection, 100)
            await connection.execute("SELECT pg_sleep(0.2)")
            return [one.hold.id for one in expired]

    first, second = await asyncio.gather(reclaim(), reclaim())
    assert sorted(first + second) == sorted(hold.id for hold in holds)


async def test_a_live_lease_is_never_taken(database: Database) -> None:
    async with database.transaction() as connection:
        await running(connection, 3)
        assert await leases.lock_expired(connection, 10) == []


async def test_after_a_step_of_postgres_s_clock_reclaim_waits_for_the_heartbeats(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with database.connection() as connection:
        (lost,) = await running(connection, 1)
        await expire(connection)
    reclaim = ReclaimExpired(database, Publisher("amqp://127.0.0.1:1/", "test"), beat=60)
    with monkeypatch.context() as stepped:
        stepped.setattr(StepDetector, "has_stepped", lambda *_: True)
        assert (await reclaim.run_once()).done == 0
    # No new step is seen, and the beat is not over.
    assert (await reclaim.run_once()).done == 0
    async with database.connection() as connection:
        assert (await live(connection, lost.id))["state"] == "running"
    without_step = ReclaimExpired(database, Publisher("amqp://127.0.0.1:1/", "test"), beat=60)
    assert (await without_step.run_once()).done == 1
