"""Due jobs → outbox → the durable exchange, queue by queue, as far as each queue's credit goes.

The short transaction commits before anything is published, so no message can arrive before its row; no
transaction or lock waits for the broker. The outbox rows are deleted after the confirms, by the next release; what
a crash leaves there is published again by any scheduler.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from mainspring.broker.connection import Unroutable
from mainspring.broker.messages import JobBatch
from mainspring.broker.publisher import Publisher
from mainspring.fault_points import reach
from mainspring.runtime.job_spans import traced
from mainspring.runtime.loop import Pass
from mainspring.store import lines, release
from mainspring.store.lines import LineTurns
from mainspring.store.pool import Database
from mainspring.store.release import Bounds, OutboxBatch, Released
from mainspring.telemetry import metrics
from mainspring.telemetry.logs import get_logger
from mainspring.telemetry.tracing import Operation
from mainspring_services.scheduler.queue_topology import QueueTopology

log = get_logger(__name__)
#: What a queue waits after a returned message.
BACKOFF = timedelta(seconds=1)
#: Waits of a queue whose credit is used up: short while work flows, longer while nothing moves.
SHORTEST_WAIT = 0.005
LONGEST_WAIT = 0.25
#: What a queue waits whose credit has just been used up; a tenth of the time that its window lasts at 10,000 jobs/s.
REFILL_WAIT = 0.02
#: A queue whose due jobs are all released is looked at again after so long: what comes sooner wakes the loop.
LOOK_WAIT = 0.02


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
        self.wake = asyncio.Event()
        self._named: set[str] = set()
        self._has_looked = True
        self._next_due_at = 0.0
        self._published: list[int] = []
        self._turns = LineTurns()
        #: Queues with lines, and when to look at these again (their jobs are due already), or never while none wait.
        self._lines_at: dict[str, float] = {}

    def wake_up(self, queue: str = "") -> None:
        """Have the next pass begin now; with a ``queue``, it looks there first."""
        if queue:
            self._named.add(queue)
        self.wake.set()

    async def run_once(self) -> Pass:
        """Release once in each queue that has something due; wait for what is due next.

        Queues that a wake-up named are released without looking for others; every other pass looks everywhere.
        """
        named, self._named = self._named, set()
        self._has_looked = not (named and self._has_looked)
        now = time.monotonic()
        named |= {queue for queue, at in self._lines_at.items() if at <= now}
        if self._has_looked:
            named |= await self._look()
        results = [(queue, await self._release(queue)) for queue in named]
        if not results:
            await self.forget_published()
        waits = [self._wait_for(queue, released) for queue, released in results]
        until_due = max(min([self._next_due_at, *self._lines_at.values()]) - time.monotonic(), 0.0)
        return Pass(done=sum(released.count for _, released in results), wait=min([*waits, until_due]))

    async def forget_published(self) -> None:
        """Delete the outbox rows of what has been published. Raises DatabaseUnavailable, and keeps them."""
        if self._published:
            published = tuple(self._published)
            await self._database.run(lambda connection: release.delete_outbox(connection, published))
            del self._published[: len(published)]

    async def _look(self) -> set[str]:
        """The queues that have something due now; notes when the next job is due."""
        found = await self._database.run(lambda connection: release.next_due(connection, self._bounds))
        waits = {queue: one.wait for queue, one in found.items() if one.wait is not None}
        later = [wait.total_seconds() for wait in waits.values() if wait > timedelta(0)]
        self._next_due_at = time.monotonic() + min(later, default=math.inf)
        due = {queue for queue, wait in waits.items() if wait <= timedelta(0)}
        return due | {
            queue for queue, one in found.items() if one.has_lines and self._lines_at.get(queue, math.inf) == math.inf
        }

    async def _release(self, queue: str) -> Released:
        await self._topology.declare_queue(queue)
        published = tuple(self._published)
        if queue in self._lines_at:
            released = await self._serve_lines(queue, published)
        else:
            released = await self._database.run(
                lambda connection: release.release(
                    connection, queue, self._bounds, most=self._size, published=published
                )
            )
            if released.has_lines:
                released = await self._serve_lines(queue)
        reach("release.committed")
        if not released.is_locked_elsewhere:
            del self._published[: len(published)]
        metrics.RELEASED.labels(queue).inc(released.count)
        await self.publish(released.batches)
        return released

    async def _serve_lines(self, queue: str, published: Sequence[int] = ()) -> Released:
        turns = self._turns.of(queue)
        return await self._database.run_in_transaction(
            lambda connection: lines.serve(connection, queue, self._bounds, turns, most=self._size, published=published)
        )

    def _wait_for(self, queue: str, released: Released) -> float:
        wait = self._pause_of(queue, released)
        if released.has_lines:
            self._lines_at[queue] = time.monotonic() + wait if released.has_waiting else math.inf
        elif not released.is_locked_elsewhere:
            self._lines_at.pop(queue, None)
        return wait

    def _pause_of(self, queue: str, released: Released) -> float:
        if released.count:
            self._pace.moved(queue)
            if released.count >= released.credit:
                # Credit comes back a little at a time: what has come together by then is worth a statement.
                return REFILL_WAIT
            if released.count >= self._size:
                self._named.add(queue)
                return 0.0
            return LOOK_WAIT
        if released.waits_for_rate is not None:
            return released.waits_for_rate
        if released.is_locked_elsewhere or (released.credit and not released.waits_for_room):
            return LONGEST_WAIT
        return self._pace.stuck(queue)

    async def publish(self, batches: Sequence[OutboxBatch]) -> None:
        """Publish committed batches side by side. Raises the first Unavailable after all have been tried."""
        outcomes = await asyncio.gather(*(self._publish(batch) for batch in batches), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def _publish(self, batch: OutboxBatch) -> None:
        try:
            async with traced(self._database, Operation.RELEASE, batch.queue, [ref.id for ref in batch.refs]):
                await self._publisher.publish_due(JobBatch(batch.queue, batch.refs))
        except Unroutable:
            log.error("returned as unroutable: the queue backs off", queue=batch.queue, jobs=len(batch.refs))
            self._topology.forget(batch.queue)
            await self._database.run(lambda connection: release.put_back(connection, batch, BACKOFF))
        reach("release.confirmed")
        self._published.append(batch.id)
