"""The runs that broke drafts of the protocol, step by step on the rows of a real Postgres: they end well now.

``A`` is one job with its messages and two workers, ``K`` two jobs that share a limit of one. The steps at which a
message must arrive are in ``test_counterexamples_messages``. ``tests/model`` finds these runs again with a mechanism
taken out. Not repeated here, since they are elsewhere as they are:

- A2 and A8, two handlers at once, or one that runs on after its job has ended elsewhere, since a frozen supervisor lost
  its lease: ``test_fleet_faults.test_the_runner_of_a_frozen_supervisor_ends_before_the_lease_can_be_taken``
- A6 on processes, the zombie that comes back: ``test_fleet_faults.test_w08_a_zombie_that_comes_back_changes_nothing``
- A9, committed and never published: ``test_fleet_faults
  .test_d01_a_batch_that_was_committed_and_never_published_is_published_by_another``; a worker that is killed:
  ``test_fleet_faults.test_w02_the_jobs_of_a_killed_worker_run_again_exactly_once``; a wiped broker:
  ``test_broker_loss.test_a_wiped_broker_loses_no_job_and_runs_none_twice``
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, cast
from uuid import UUID, uuid4

from mainspring.broker.publisher import Publisher
from mainspring.domain.job import JobRef, JobRequest
from mainspring.domain.settlement import Verdict
from mainspring.domain.states import Outcome, State
from mainspring.store import admission, claims, jobs, leases, queues, release, settle, sql
from mainspring.store.admission import Admission
from mainspring.store.claims import ClaimAnswer, Claimant, ClaimedJob
from mainspring.store.leases import Beat, Hold
from mainspring.store.pool import Conn, Database
from mainspring.store.release import Bounds
from mainspring_services.scheduler.reclaim_expired import ReclaimExpired

from .rows import job, live, put_job, release_jobs

LEASE = timedelta(seconds=30)
NOBODY = "amqp://127.0.0.1:1/"


async def claim(connection: Conn, ref: JobRef) -> ClaimAnswer:
    return await claims.claim(connection, [ref], uuid4(), Claimant(uuid4(), ("t",)), LEASE)


async def started(connection: Conn, ref: JobRef) -> ClaimedJob:
    """A worker claims it, and its handler starts."""
    (one,) = (await claim(connection, ref)).claimed
    return one


def hold(one: ClaimedJob) -> Hold:
    return Hold(one.id, one.fence, one.claim_id)


async def complete(connection: Conn, one: ClaimedJob, result: str | None = None) -> bool:
    """True when the completion changed the row."""
    return bool(await settle.succeed(connection, [settle.Success(*hold(one), result)]))


async def reference(connection: Conn, job_id: UUID) -> JobRef:
    return JobRef(job_id, (await live(connection, job_id))["fence"])


async def admit(connection: Conn, *refs: JobRef) -> Admission:
    async with connection.transaction():
        answer = await admission.admit(connection, "q", refs)
    assert answer is not None
    return answer


async def limited_to_one(connection: Conn, count: int) -> list[JobRef]:
    """Enqueued jobs that share a limit of one."""
    refs = [JobRef(await put_job(connection, State.ENQUEUED), 7) for _ in range(count)]
    await queues.set_concurrency(connection, "q", 1)
    return refs


async def test_a2_a_cancelled_running_job_keeps_its_slot_until_its_handler_has_stopped(database: Database) -> None:
    async with database.connection() as connection:
        first, second = await limited_to_one(connection, 2)
        (ticket,) = (await admit(connection, first)).admitted
        running = await started(connection, ticket)
        assert await jobs.cancel(connection, running.id, "somebody") is State.RUNNING
        assert (await admit(connection, second)).blocked == 1  # the handler runs on
        assert await leases.extend(connection, [hold(running)], LEASE) == {running.id: Beat.CANCEL_REQUESTED}
        stopped = Verdict(State.CANCELLED, Outcome.CANCELLED)
        assert await settle.fail(connection, [settle.Failure(*hold(running), "t", stopped)])
        assert (await job(connection, running.id))["state"] == "cancelled"
        (batch,) = (await release_jobs(connection, "q")).batches
        assert [ref.id for ref in (await admit(connection, *batch.refs)).admitted] == [second.id]


async def test_a6_a_late_completion_of_the_first_attempt_changes_nothing(database: Database) -> None:
    async with database.connection() as connection:
        submitted = (await jobs.insert(connection, [JobRequest("t", queue="q")]))[0]
        await queues.adopt_queues(connection)
        (batch,) = (await release_jobs(connection, "q")).batches
        first = await started(connection, batch.refs[0])
        await connection.execute("UPDATE mainspring.live_jobs SET lease_until = clock_timestamp() - interval '1 s'")
        # Nobody is there for the retry's message: the row's ticket is all that the second worker needs.
        assert (await ReclaimExpired(database, Publisher(NOBODY, "test"), beat=1).run_once()).done == 1
        second = await started(connection, await reference(connection, submitted.id))
        assert (first.attempt, second.attempt) == (1, 2)
        before = await live(connection, submitted.id)
        assert await leases.extend(connection, [hold(first)], LEASE) == {submitted.id: Beat.GONE}
        assert not await complete(connection, first, '"first"')
        assert await live(connection, submitted.id) == before
        assert await complete(connection, second, '"second"')
        assert not await complete(connection, first, '"first"')
        row = await job(connection, submitted.id)
        assert (row["state"], row["result"], row["attempts_used"]) == ("succeeded", '"second"', 2)
        completions = await connection.fetch("SELECT job_id, fence FROM mainspring.completions")
        assert [tuple(one) for one in completions] == [(submitted.id, second.fence)]


class Frozen:
    """A dispatcher's connection that stands still once the held slots are counted: decided, and not written."""

    def __init__(self, connection: Conn) -> None:
        self._connection = connection
        self.has_counted = asyncio.Event()
        self.thaw = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def fetch(self, query: str, *arguments: Any) -> Any:
        rows = await self._connection.fetch(query, *arguments)
        if query == sql.load("limits")["in_hand"]:
            self.has_counted.set()
            await self.thaw.wait()
        return rows


@asynccontextmanager
async def frozen_dispatcher(database: Database, ref: JobRef) -> AsyncIterator[Callable[[], Awaitable[Admission]]]:
    """A dispatcher that has decided on ``ref``; await what this gives, and it writes its decision."""
    async with database.connection() as connection:
        frozen = Frozen(connection)
        admitting = asyncio.create_task(admit(cast("Conn", frozen), ref))

        async def write() -> Admission:
            frozen.thaw.set()
            return await asyncio.wait_for(admitting, 5)

        try:
            await asyncio.wait_for(frozen.has_counted.wait(), 5)
            yield write
        finally:
            frozen.thaw.set()
            await asyncio.wait([admitting])


async def waits_or_ends(connection: Conn, task: asyncio.Task[Any]) -> None:
    """Until ``task`` waits for a lock, or has got by without."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    async with asyncio.timeout(5):
        while not task.done() and not await connection.fetchval(waiting):
            await asyncio.sleep(0.01)


async def test_k1_k2_a_frozen_dispatcher_and_its_successor_admit_one_job_of_two(database: Database) -> None:
    async with database.connection() as connection:
        one, other = await limited_to_one(connection, 2)
        async with frozen_dispatcher(database, one) as first_writes:
            second = asyncio.create_task(database.run(lambda connection: admit(connection, other)))
            await waits_or_ends(connection, second)
            answers = [await first_writes(), await second]
        admitted = [ref for answer in answers for ref in answer.admitted]
        claimed = [run for ref in admitted for run in (await claim(connection, ref)).claimed]
        assert [run.id for run in claimed] == [one.id]
        assert (await live(connection, other.id))["state"] == "blocked"


async def test_k1_a_block_that_is_written_after_the_completion_is_found_by_the_release(database: Database) -> None:
    bounds = Bounds()
    async with database.connection() as connection:
        one, other = await limited_to_one(connection, 2)
        (ticket,) = (await admit(connection, one)).admitted
        running = await started(connection, ticket)
        async with frozen_dispatcher(database, other) as writes:
            assert await complete(connection, running)
            # Woken by the completion, the release finds nothing to promote: the block isn't written yet.
            assert (await release_jobs(connection, "q", bounds)).count == 0
            assert (await writes()).blocked == 1
        (batch,) = (await release_jobs(connection, "q", bounds)).batches
        (admitted,) = (await admit(connection, *batch.refs)).admitted
        assert await complete(connection, await started(connection, admitted))
        assert (await job(connection, other.id))["state"] == "succeeded"


async def test_k3_a_blocked_job_is_released_by_whoever_looks_next(database: Database) -> None:
    """Nothing is told of the completion: whoever it should have woken is dead."""
    async with database.connection() as connection:
        one, other = await limited_to_one(connection, 2)
        (ticket,) = (await admit(connection, one)).admitted
        running = await started(connection, ticket)
        assert (await admit(connection, other)).blocked == 1
        assert (await release_jobs(connection, "q")).count == 0  # its slot is held
        assert await complete(connection, running)
        assert await release.next_due(connection, Bounds()) != {}
        (batch,) = (await release_jobs(connection, "q")).batches
        (admitted,) = (await admit(connection, *batch.refs)).admitted
        assert await complete(connection, await started(connection, admitted))
        assert (await job(connection, other.id))["state"] == "succeeded"
