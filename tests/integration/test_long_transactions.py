"""P04: a transaction that stays open pins dead rows. None of ours does, and somebody else's doesn't stop us."""

from __future__ import annotations

import statistics
import time
from datetime import timedelta
from uuid import uuid4

import pytest

from mainspring.domain.job import JobRef, JobRequest
from mainspring.runtime.leader import Leadership
from mainspring.store import claims, jobs, release, settle
from mainspring.store.claims import Claimant
from mainspring.store.pool import Database
from mainspring.store.release import Bounds
from mainspring.telemetry import metrics
from mainspring_services.scheduler.lead import Lead

from .system import System

BATCH = 50
OPEN_TOO_LONG = (
    "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"
    " AND application_name LIKE 'mainspring-%' AND state_change < clock_timestamp() - interval '1 second'"
)


def test_p04_no_connection_of_ours_holds_a_transaction_while_handlers_run(system: System) -> None:
    system.worker(slots=10)
    system.ready()
    ids = [system.submit("fleet.nap", {"seconds": 6}) for _ in range(10)]
    for job_id in ids:
        system.started(job_id)
    ends_at = time.monotonic() + 5
    while time.monotonic() < ends_at:
        assert system.count(OPEN_TOO_LONG) == 0
    for job_id in ids:
        assert system.final(job_id)["state"] == "succeeded"


async def test_p04_the_age_of_the_oldest_transaction_is_a_metric(database: Database) -> None:
    leadership = Leadership(database, "leader")
    await leadership.renew()
    lead = Lead(leadership)
    async with database.connection() as holder:
        await holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        await holder.fetchval("SELECT count(*) FROM mainspring.live_jobs")
        await holder.fetchval("SELECT pg_sleep(0.2)")
        await lead.run_once()
        assert metrics.HORIZON._value.get() >= 0.2
        await holder.execute("ROLLBACK")


async def test_p04_a_session_that_forgets_its_transaction_is_ended(database: Database) -> None:
    async with database.connection() as connection:
        assert await connection.fetchval("SHOW idle_in_transaction_session_timeout") == "30s"


@pytest.mark.timeout(150)
async def test_p04_claims_stay_quick_beside_a_transaction_that_stays_open(database: Database) -> None:
    claimant = Claimant(uuid4(), ("t",))
    bounds = Bounds()

    async def cycle() -> float:
        """Fifty jobs from their submit to their end; returns what the claim took, in seconds."""
        async with database.connection() as connection:
            made = await jobs.insert(connection, [JobRequest("t", "{}", queue="q") for _ in range(BATCH)])
            assert len(made) == BATCH
            released = await release.release(connection, "q", bounds, most=BATCH)
            refs: list[JobRef] = [ref for batch in released.batches for ref in batch.refs]
            await release.delete_outbox(connection, tuple(batch.id for batch in released.batches))
            began = time.perf_counter()
            answer = await claims.claim(connection, refs, uuid4(), claimant, timedelta(seconds=60))
            took = time.perf_counter() - began
            done = [settle.Success(job.id, job.fence, job.claim_id, None) for job in answer.claimed]
            assert len(await settle.succeed(connection, done)) == BATCH
            return took

    async with database.connection() as connection:
        await connection.execute("INSERT INTO mainspring.queues (name) VALUES ('q')")
    for _ in range(20):
        await cycle()
    before = [await cycle() for _ in range(60)]
    async with database.connection() as holder:
        await holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        await holder.fetchval("SELECT count(*) FROM mainspring.live_jobs")
        for _ in range(200):
            await cycle()
        during = [await cycle() for _ in range(60)]
        await holder.execute("ROLLBACK")
    assert _p95(during) <= 5 * max(_p95(before), 0.002)


def _p95(seconds: list[float]) -> float:
    return statistics.quantiles(seconds, n=20)[-1]
