"""Due jobs → outbox → the durable exchange, queue by queue, as far as each queue's credit goes.

The short transaction commits before anything is published, so no message can arrive before its row; no
transaction or lock waits for the broker. The outbox rows are deleted after the confirms, many at once; what a
crash leaves there is published again by any scheduler.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from mainspring.broker.connection import Unroutable
from mainspring.broker.messages import JobBatch
from mainspring.broker.publisher import Publisher
from mainspring.domain.errors import Unavailable
from mainspring.runtime.batcher import Batcher
from mainspring.runtime.loop import Pass
from mainspring.store import release
from mainspring.store.pool import Conn, Database
from mainspring.store.release import Bounds, OutboxBatch, Released
from mainspring.telemetry import metrics
from mainspring.telemetry.logs import get_logger
from mainspring_services.scheduler.queue_topology import QueueTopology

log = get_logger(__name__)
#: What a queue waits after a returned message.
BACKOFF = timedelta(seconds=1)
#: Waits of a queue whose credit is used up: short while work flows, longer while nothing moves.
SHORTEST_WAIT = 0.005
LONGEST_WAIT = 0.25
#: What a queue waits whose credit has just been used up; a tenth of the time that its window lasts at 10,000 jobs/s.
REFILL_WAIT = 0.02


@dataclass(slots=True)
class Pace:
    """How long to wait before looking again at queues that have no credit."""

    _waits: dict[str, float] = field(default_factory=dict)

    def moved(self, queue: str) -> None:
        """Jobs of the queue were released."""
        self._waits.pop(queue, None)

    def stuck(self, queue: str) -> float:
        """No credit: the seconds to wait, doubling while it stays so."""
        wait = self._waits.get(queue, SHORTEST_WAIT)
        self._waits[queue] = min(wait * 2, LONGEST_WAIT)
        return wait


class ReleaseDue:
    """The loop's configuration: where it reads, where it publishes, how much it takes at once."""

    def __init__(
        self, database: Database, publisher: Publisher, topology: QueueTopology, bounds: Bounds, release_size: int
    ) -> None:
        self._database = database
        self._publisher = publisher
        self._topology = topology
        self._bounds = bounds
        self._size = release_size
        self._pace = Pace()
        self._likely: str | None = None
        self._published: Batcher[int, None] = Batcher("outbox", self._delete_outbox, most=1000)

    async def run_once(self) -> Pass:
        """Release once in each queue that has something due; wait for what is due next.

        A wake-up is most often for the queue that had work last: every other pass looks there before anywhere.
        """
        likely, self._likely = self._likely, None
        if likely is not None and (released := await self._release(likely)).count:
            return Pass(done=released.count, wait=self._wait_for(likely, released))
        due_in = await self._database.run(lambda connection: release.next_due(connection, self._bounds))
        now_due = [queue for queue, wait in due_in.items() if wait <= timedelta(0)]
        results = [(queue, await self._release(queue)) for queue in now_due]
        self._likely = next((queue for queue, released in results if released.count), likely)
        later = [wait.total_seconds() for wait in due_in.values() if wait > timedelta(0)]
        waits = later + [self._wait_for(queue, released) for queue, released in results]
        return Pass(done=sum(released.count for _, released in results), wait=min(waits, default=None))

    async def _release(self, queue: str) -> Released:
        await self._topology.declare_queue(queue)

        async def work(connection: Conn) -> Released:
            return await release.release(connection, queue, self._bounds, most=self._size)

        released = await self._database.run_in_transaction(work)
        metrics.RELEASED.labels(queue).inc(released.count)
        await self.publish(released.batches)
        return released

    def _wait_for(self, queue: str, released: Released) -> float:
        if released.count:
            self._pace.moved(queue)
            # Credit comes back a little at a time: what has come together by then is worth a statement.
            return REFILL_WAIT if released.count >= released.credit else 0.0
        if not released.credit and not released.is_locked_elsewhere:
            return self._pace.stuck(queue)
        return LONGEST_WAIT

    async def publish(self, batches: Sequence[OutboxBatch]) -> None:
        """Publish committed batches side by side. Raises the first Unavailable after all have been tried."""
        outcomes = await asyncio.gather(*(self._publish(batch) for batch in batches), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def _publish(self, batch: OutboxBatch) -> None:
        try:
            await self._publisher.publish_due(JobBatch(batch.queue, batch.refs))
        except Unroutable:
            log.error("returned as unroutable: the queue backs off", queue=batch.queue, jobs=len(batch.refs))
            self._topology.forget(batch.queue)
            await self._database.run(lambda connection: release.put_back(connection, batch, BACKOFF))
        self._published.enqueue(batch.id).add_done_callback(_forget)

    async def _delete_outbox(self, ids: Sequence[int]) -> Sequence[None]:
        await self._database.run(lambda connection: release.delete_outbox(connection, ids))
        return [None] * len(ids)


def _forget(deleting: asyncio.Future[None]) -> None:
    """A row that couldn't be deleted is published again: harmless."""
    if not deleting.cancelled() and isinstance(deleting.exception(), Unavailable):
        log.warning("outbox row kept", error=str(deleting.exception()))
