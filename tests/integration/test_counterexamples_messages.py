"""The counterexamples in which a message comes at the wrong moment, on a real Postgres and a real RabbitMQ."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TypeVar, cast
from uuid import uuid4

import pytest

from mainspring.broker import topology
from mainspring.broker.consumer import Consumer
from mainspring.broker.delivery import Delivery
from mainspring.broker.messages import JobBatch
from mainspring.broker.publisher import Publisher
from mainspring.domain.errors import BrokerUnavailable, DatabaseUnavailable
from mainspring.domain.job import JobRef, JobRequest
from mainspring.domain.lease import LeaseTerms
from mainspring.domain.settlement import Verdict
from mainspring.domain.states import Outcome, State
from mainspring.store import jobs, queues, reconcile, release, settle
from mainspring.store.claims import ClaimAnswer, Claimant
from mainspring.store.pool import Conn, Database
from mainspring.store.release import Bounds
from mainspring.worker.attempt import Attempt
from mainspring.worker.intake import Intake
from mainspring.worker.slots import Slots
from mainspring_services.dispatcher.dispatch import Dispatch
from mainspring_services.dispatcher.fleet_view import FleetView
from mainspring_services.scheduler import republish_outbox
from mainspring_services.scheduler.queue_topology import QueueTopology
from mainspring_services.scheduler.reconcile import ReconcileMessages
from mainspring_services.scheduler.release_due import ReleaseDue
from mainspring_services.scheduler.republish_outbox import RepublishOutbox

from .rows import live
from .test_counterexamples import claim, complete, hold, reference, started

T = TypeVar("T")
Arrivals = asyncio.Queue[Delivery]


class Line:
    """A queue ``q`` with one job, due now; the way from the scheduler through the dispatcher to the work queue."""

    def __init__(self, url: str, database: Database) -> None:
        self.url, self.database = url, database
        self.publisher = Publisher(url, "test")
        self.topology = QueueTopology(url)
        self.dispatch = Dispatch(url, database, self.publisher, FleetView())

    async def open(self) -> None:
        await self.topology.declare_all(["q"])
        async with self.database.connection() as connection:
            (self.job,) = await jobs.insert(connection, [JobRequest("t", queue="q")])
            await queues.adopt_queues(connection)

    async def close(self) -> None:
        await self.dispatch.finish()
        await self.publisher.close()
        await self.topology.close()

    def releases(self, publisher: Publisher | None = None) -> ReleaseDue:
        """A scheduler's release."""
        return ReleaseDue(self.database, publisher or self.publisher, self.topology, Bounds(), 10)

    @asynccontextmanager
    async def receiving(self, queue: str) -> AsyncIterator[Arrivals]:
        """Consume ``queue``; what isn't acknowledged at the end returns to it."""
        arrived: Arrivals = asyncio.Queue()
        ready = asyncio.Event()
        consumer = Consumer(
            self.url,
            "test",
            prefetch=10,
            receive=arrived.put_nowait,
            on_state=lambda problem: ready.set() if problem is None else None,
        )
        consumer.consume([queue])
        running = asyncio.create_task(consumer.run())
        try:
            await asyncio.wait_for(ready.wait(), 10)
            yield arrived
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def dispatch_next(self) -> None:
        """The dispatcher brings one due message on."""
        async with self.receiving(topology.due_queue("q")) as due:
            self.dispatch.receive(await next_of(due))
            await self.dispatch.finish()

    async def row_state(self) -> tuple[str, int, int]:
        async with self.database.connection() as connection:
            row = await live(connection, self.job.id)
            return row["state"], row["fence"], row["attempts_used"]


async def next_of(arrivals: Arrivals) -> Delivery:
    return await asyncio.wait_for(arrivals.get(), 10)


def only_ref(delivery: Delivery) -> JobRef:
    (ref,) = delivery.batch.refs
    return ref


@pytest.fixture
async def line(database: Database, vhost_url: str) -> AsyncIterator[Line]:
    one = Line(vhost_url, database)
    await one.open()
    yield one
    await one.close()


class ClaimedMeanwhile(Publisher):
    """What it publishes has been received and claimed before the publish returns: no worker is faster."""

    def __init__(self, line: Line, arrivals: Arrivals) -> None:
        super().__init__(line.url, "test")
        self._line, self._arrivals = line, arrivals
        self.answers: list[ClaimAnswer] = []

    async def publish_due(self, batch: JobBatch) -> None:
        await super().publish_due(batch)
        ref = only_ref(await next_of(self._arrivals))
        async with asyncio.timeout(5), self._line.database.connection() as connection:
            self.answers.append(await claim(connection, ref))


async def test_a0_a_message_that_is_claimed_at_once_finds_its_row(line: Line) -> None:
    async with line.receiving(topology.due_queue("q")) as due:
        publisher = ClaimedMeanwhile(line, due)
        released = await line.releases(publisher).run_once()
        await publisher.close()
    (answer,) = publisher.answers
    assert released.done == 1
    assert [one.id for one in answer.claimed] == [line.job.id]
    assert (await line.row_state())[0] == "running"


async def failed(line: Line, ref: JobRef, delay: timedelta) -> JobRef:
    """Claimed by ``ref``, and failed: it waits for ``delay``, and its ticket for the ladder is returned."""
    async with line.database.connection() as connection:
        attempt = await started(connection, ref)
        verdict = Verdict(State.RETRYING, Outcome.FAILED, delay=delay)
        fences = await settle.fail(connection, [settle.Failure(*hold(attempt), "t", verdict)])
    return JobRef(line.job.id, fences[line.job.id])


async def test_a1_a_ladder_message_that_is_early_starts_the_retry(line: Line) -> None:
    await line.releases().run_once()
    await line.dispatch_next()
    async with line.receiving(topology.work_queue("q")) as work:
        first = await next_of(work)
        retry = await failed(line, only_ref(first), timedelta(seconds=30))
        await line.publisher.publish_delayed(JobBatch("q", (retry,)), timedelta(milliseconds=100))
        first.settle(first.batch.refs)
        await line.dispatch_next()
        async with line.database.connection() as connection:
            second = await started(connection, only_ref(await next_of(work)))
            is_early = "SELECT due_at > clock_timestamp() FROM mainspring.live_jobs WHERE id = $1"
            assert await connection.fetchval(is_early, line.job.id)
            assert second.attempt == 2
            assert await complete(connection, second)


async def returned_after_failure(line: Line, delay: timedelta) -> JobRef:
    """A worker fails the job and dies, its message unanswered; a second one gets that. Returns the retry's ticket."""
    await line.releases().run_once()
    await line.dispatch_next()
    async with line.receiving(topology.work_queue("q")) as work:
        ref = only_ref(await next_of(work))
        retry = await failed(line, ref, delay)
    async with line.receiving(topology.work_queue("q")) as work:
        again = await next_of(work)
        assert only_ref(again) == ref
        async with line.database.connection() as connection:
            answer = await claim(connection, ref)
        assert (answer.claimed, answer.stale) == ([], [ref])
        again.settle(answer.redundant())
    assert await line.row_state() == ("retrying", retry.ticket, 1)
    return retry


async def test_a2_a_stale_message_claims_nothing(line: Line) -> None:
    await returned_after_failure(line, timedelta(0))
    async with line.database.connection() as connection:
        assert await reconcile.reschedule_retries(connection, timedelta(0)) == 1
        (batch,) = (await release.release(connection, "q", Bounds())).batches
        attempt = await started(connection, batch.refs[0])
        assert (attempt.attempt, attempt.attempts_used) == (2, 2)
        assert await complete(connection, attempt)


async def test_a3_a_stale_message_does_not_cut_a_retrys_delay_short(line: Line) -> None:
    retry = await returned_after_failure(line, timedelta(seconds=30))
    async with line.database.connection() as connection:
        assert await reconcile.reschedule_retries(connection, timedelta(0)) == 0
        assert await reference(connection, line.job.id) == retry
        # Its own message is the one that starts it.
        assert await complete(connection, await started(connection, retry))


class LosesReply(Database):
    """Does the first thing that it is asked, and says that it failed."""

    is_lost = False

    async def run(self, work: Callable[[Conn], Awaitable[T]]) -> T:
        answer = await super().run(work)
        if not self.is_lost:
            self.is_lost = True
            raise DatabaseUnavailable("the reply is lost")
        return answer


class OneSlot:
    """Notes what would start in it."""

    free = 1

    def __init__(self) -> None:
        self.weights: dict[str, int] = {}
        self.attempts: list[Attempt] = []
        self.in_queue: Counter[str] = Counter()

    def start(self, attempts: Iterable[Attempt]) -> None:
        self.attempts.extend(attempts)


async def test_a7_a_claim_whose_reply_was_lost_is_asked_again_and_its_handler_starts(
    line: Line, database_url: str
) -> None:
    slot = OneSlot()
    await line.releases().run_once()
    await line.dispatch_next()
    lossy = LosesReply(database_url, "test")
    async with lossy, line.receiving(topology.work_queue("q")) as work:
        claimant = Claimant(uuid4(), ("t",))
        intake = Intake(lossy, line.publisher, cast("Slots", slot), claimant, LeaseTerms())
        delivery = await next_of(work)
        intake.receive(delivery)
        assert (await intake.run_once()).done == 1
        assert lossy.is_lost
        # It is started once, counted once, and its message waits for the settlement.
        (attempt,) = slot.attempts
        assert (attempt.job.attempt, attempt.job.attempts_used) == (1, 1)
        assert delivery.left == {attempt.ref}
    assert await line.row_state() == ("running", attempt.job.fence, 1)
    async with line.database.connection() as connection:
        assert await complete(connection, attempt.job)


class DiesBeforePublish(Publisher):
    """The scheduler's last moment."""

    async def publish_due(self, batch: JobBatch) -> None:
        raise BrokerUnavailable(f"dead before {batch}")


async def left_unpublished(line: Line) -> None:
    """A release commits, and its scheduler dies before the publish."""
    with pytest.raises(BrokerUnavailable):
        await line.releases(DiesBeforePublish(line.url, "test")).run_once()
    assert (await line.row_state())[0] == "enqueued"


async def arrives_and_completes(line: Line) -> None:
    """The dispatcher brings a message on; a worker claims by it, and completes."""
    await line.dispatch_next()
    async with line.receiving(topology.work_queue("q")) as work, line.database.connection() as connection:
        delivery = await next_of(work)
        assert await complete(connection, await started(connection, only_ref(delivery)))
        delivery.settle(delivery.batch.refs)


async def test_a9_another_scheduler_publishes_what_was_committed(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    await left_unpublished(line)
    monkeypatch.setattr(republish_outbox, "OLDER_THAN", timedelta(0))
    another = line.releases()
    assert (await RepublishOutbox(line.database, another, line.topology).run_once()).done == 1
    await another.forget_published()
    assert (await RepublishOutbox(line.database, another, line.topology).run_once()).done == 0
    await arrives_and_completes(line)


async def test_a9_a_job_whose_message_and_outbox_row_are_lost_is_missed_and_sent_again(line: Line) -> None:
    await left_unpublished(line)
    before = await line.row_state()
    async with line.database.connection() as connection:
        await connection.execute("DELETE FROM mainspring.outbox")
    at_once = ReconcileMessages(line.database, line.publisher, unclaimed_after=timedelta(0))
    assert (await at_once.run_once()).done == 1
    assert await line.row_state() == before  # the same ticket
    await arrives_and_completes(line)
