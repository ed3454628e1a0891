"""P02: whatever changes many jobs at once locks them in one order, so nothing ever waits in a circle."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from mainspring.domain.job import JobRef
from mainspring.domain.settlement import Verdict
from mainspring.domain.states import Outcome, State
from mainspring.store import admission, claims, dead_letters, jobs, leases, reconcile, release, settle
from mainspring.store.pool import Conn, Database

from .rows import put_job

ROWS = 200
SECONDS = 8.0
LEASE = timedelta(seconds=15)
CLAIMANT = claims.Claimant(uuid.uuid4(), ("t",))
Work = Callable[[Conn], Awaitable[object]]


class Everybody:
    """What all services do to the same rows, each in an order of its own."""

    def __init__(self, ids: list[uuid.UUID]) -> None:
        self._ids = ids
        self._dice = random.Random(2)

    async def _refs(self, connection: Conn, *states: State) -> list[JobRef]:
        rows = await connection.fetch(
            "SELECT id, fence FROM mainspring.live_jobs WHERE state = ANY ($1)", [state.value for state in states]
        )
        found = [JobRef(row["id"], row["fence"]) for row in rows]
        self._dice.shuffle(found)
        return found[:100]

    async def _holds(self, connection: Conn) -> list[leases.Hold]:
        rows = await connection.fetch("SELECT id, fence, claim_id FROM mainspring.live_jobs WHERE state = 'running'")
        found = [leases.Hold(row["id"], row["fence"], row["claim_id"]) for row in rows]
        self._dice.shuffle(found)
        return found

    async def claim(self, connection: Conn) -> None:
        if found := await self._refs(connection, State.ENQUEUED, State.RETRYING):
            await claims.claim(connection, found, uuid.uuid4(), CLAIMANT, LEASE)

    async def beat(self, connection: Conn) -> None:
        if found := await self._holds(connection):
            await leases.extend(connection, found, LEASE)

    async def fail(self, connection: Conn) -> None:
        verdict = Verdict(State.SCHEDULED, Outcome.HANDED_BACK, counts=False)
        if found := await self._holds(connection):
            await settle.fail(connection, [settle.Failure(*one, "t", verdict) for one in found[:50]])

    async def reclaim(self, connection: Conn) -> None:
        await leases.lock_expired(connection, 100)

    async def send_back(self, connection: Conn) -> None:
        if found := await self._refs(connection, State.ENQUEUED):
            await admission.return_paused(connection, "q", found, timedelta(0))

    async def release(self, connection: Conn) -> None:
        await release.release(connection, "q", release.Bounds(), most=100)

    async def cancel_and_redrive(self, connection: Conn) -> None:
        one = self._dice.choice(self._ids)
        await jobs.cancel(connection, one, "test")
        await jobs.redrive(connection, one, "test")

    async def set_aside(self, connection: Conn) -> None:
        if found := await self._refs(connection, State.ENQUEUED):
            await dead_letters.reschedule_set_aside(connection, found)

    async def forget(self, connection: Conn) -> None:
        await reconcile.reschedule_forgotten(connection, await reconcile.now(connection))

    def works(self) -> list[Work]:
        """All of it."""
        return [
            *(self.claim, self.beat, self.fail, self.reclaim, self.send_back),
            *(self.release, self.cancel_and_redrive, self.set_aside, self.forget),
        ]


@pytest.mark.timeout(90)
async def test_p02_statements_on_the_same_rows_in_any_order_never_deadlock(database: Database) -> None:
    dice = random.Random(1)
    async with database.connection() as connection:
        ids = [await put_job(connection, dice.choice([State.ENQUEUED, State.RUNNING])) for _ in range(ROWS)]
    deadline = asyncio.get_running_loop().time() + SECONDS

    async def again_and_again(work: Work) -> int:
        count = 0
        while asyncio.get_running_loop().time() < deadline:
            await database.run_in_transaction(work)
            count += 1
        return count

    works = Everybody(ids).works()
    counts = await asyncio.gather(*(again_and_again(work) for work in works for _ in range(2)))
    assert min(counts) > 3
    async with database.connection() as connection:
        # The statistics of the other sessions come with a delay of up to a second.
        await asyncio.sleep(1.5)
        found = await connection.fetchval("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        left = await connection.fetchval("SELECT count(*) FROM mainspring.live_jobs")
    assert (found, left) == (0, ROWS)
