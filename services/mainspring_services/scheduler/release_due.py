"""Due jobs → outbox → the durable exchange, queue by queue, as far as each queue's credit goes.

The short transaction commits before anything is published, so no message can arrive before its row; no
transaction or lock waits for the broker. The outbox rows are deleted after the confirms, by the next release; what
a crash leaves there is published again by any scheduler. What an api has released of a queue that this scheduler lent,
and what a fire has released, is published here too.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from mainspring.broker.connection import Unroutable
from mainspring.broker.messages import JobBatch
from mainspring.broker.publisher import Publisher
from mainspring.domain.job import check_name
from mainspring.fault_points import reach
from mainspring.runtime.job_spans import traced
from mainspring.runtime.loop import Pass
from mainspring.runtime.reschedule import reschedule_lost
from mainspring.store import fleet, lines, release
from mainspring.store.pool import Database
from mainspring.store.release import Bounds, OutboxBatch, Released
from mainspring.telemetry import metrics
from mainspring.telemetry.logs import get_logger
from mainspring.telemetry.tracing import Operation
from mainspring_services.scheduler.lending import Lending
from mainspring_services.scheduler.queue_pace import QueuePace
from mainspring_services.scheduler.queue_topology import QueueTopology

log = get_logger(__name__)
#: What a queue waits after a returned message.
BACKOFF = timedelta(seconds=1)
#: How often the scan of a queue whose jobs wait in lines begins at the start: it walks over all that wait.
LINES_SWEEP_SECONDS = 60.0
#: How old the count of the workers' slots may be.
SLOTS_SECONDS = 1.0
#: How long passes for queues that are named, and for what is handed over, may go on without a look at what else is due.
LOOK_SECONDS = 0.5


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
        self._paces: dict[str, QueuePace] = defaultdict(QueuePace)
        #: The slots of all workers that live, by queue, and when they were read.
        self._slots: Mapping[str, int] = {}
        self._slots_at = -math.inf
        self._lines_swept_at = time.monotonic()
        self.lending = Lending(database)
        #: What apis and fires have released, to be published.
        self._handed_over: list[OutboxBatch] = []
        #: When the last pass wanted the next one: what is handed over doesn't put it off.
        self._next_pass_at = -math.inf
        self.wake = asyncio.Event()
        self._named: set[str] = set()
        self._next_due_at = 0.0
        #: When a pass has to look at all queues, whichever are named.
        self._look_at = -math.inf
        self._published: list[int] = []

    def wake_up(self, queue: str = "") -> None:
        """Have the next pass begin now; with a ``queue``, it may look there alone."""
        if queue:
            check_name("queue", queue)
            self._named.add(queue)
        else:
            self._look_at = -math.inf
        self.wake.set()

    def hear_released(self, text: str) -> None:
        """An api has released a job of a queue that this scheduler lent: have it published."""
        if text:
            self.hand_over([release.batch_from(text)])

    def hand_over(self, batches: Iterable[OutboxBatch]) -> None:
        """Have batches published that a committed transaction holds."""
        self._handed_over += batches
        self.wake.set()

    def window_of(self, queue: str) -> int:
        """How many jobs of ``queue`` may be in the broker, as far as its releases have shown."""
        return round(self._paces[queue].window.size)

    async def run_once(self) -> Pass:
        """Release once in each queue that has something due; wait for what is due next.

        Queues that a wake-up named are released without looking for others, for LOOK_SECONDS, or until one is due.
        """
        published = await self._publish_handed_over()
        now = time.monotonic()
        left = min(self._next_pass_at, self._look_at) - now
        if published and not self._named and left > 0:
            return Pass(done=published, wait=left)
        named, self._named = self._named, set()
        named |= {queue for queue, pace in self._paces.items() if pace.lines_at <= now}
        if not named or now >= min(self._look_at, self._next_due_at):
            named |= await self._look()
        results = [(queue, await self._release(queue)) for queue in named]
        if all(released.is_locked_elsewhere for _, released in results):
            # No release has done it.
            await self.forget_published()
        waits = [await self._learn(queue, released) for queue, released in results]
        done = published + sum(released.count for _, released in results)
        wait = min([*waits, self._until_due()])
        self._next_pass_at = time.monotonic() + wait
        return Pass(done=done, wait=wait)

    def _until_due(self) -> float:
        next_at = min([self._next_due_at, *(pace.lines_at for pace in self._paces.values())])
        return max(next_at - time.monotonic(), 0.0)

    async def _publish_handed_over(self) -> int:
        batches, self._handed_over = self._handed_over, []
        for queue in {batch.queue for batch in batches}:
            await self._topology.declare_queue(queue)
        await self.publish(batches)
        for batch in batches:
            metrics.RELEASED.labels(batch.queue).inc(len(batch.refs))
        return len(batches)

    async def sweep(self) -> Pass:
        """Have the next scans begin at the start; where jobs wait in lines, mostly a minute earlier than they would."""
        is_full = time.monotonic() - self._lines_swept_at > LINES_SWEEP_SECONDS
        if is_full:
            self._lines_swept_at = time.monotonic()
        for queue in self._bounds.queues():
            if is_full or not self._paces[queue].has_lines:
                self._bounds.forget(queue)
            else:
                self._bounds.look_back(queue)
        return Pass()

    async def forget_published(self) -> None:
        """Delete the outbox rows of what has been published. Raises DatabaseUnavailable, and keeps them."""
        if self._published:
            published = tuple(self._published)
            await self._database.run(lambda connection: release.delete_outbox(connection, published))
            del self._published[: len(published)]

    async def _look(self) -> set[str]:
        """The queues that have something due now; notes when the next job is due."""
        # Before it is asked: whoever wakes meanwhile may mean what the answer doesn't hold.
        self._look_at = time.monotonic() + LOOK_SECONDS
        found = await self._database.run(lambda connection: release.next_due(connection, self._bounds))
        waits = {queue: one.wait for queue, one in found.items() if one.wait is not None}
        later = [wait.total_seconds() for wait in waits.values() if wait > timedelta(0)]
        self._next_due_at = time.monotonic() + min(later, default=math.inf)
        due = {queue for queue, wait in waits.items() if wait <= timedelta(0)}
        return due | {
            queue for queue, one in found.items() if one.has_lines and self._paces[queue].lines_at == math.inf
        }

    async def _release(self, queue: str) -> Released:
        await self._topology.declare_queue(queue)
        published = tuple(self._published)
        released = await self._take(queue, published)
        reach("release.committed")
        if not released.is_locked_elsewhere:
            del self._published[: len(published)]
        metrics.RELEASED.labels(queue).inc(released.count)
        await self.publish(released.batches)
        return released

    async def _take(self, queue: str, published: Sequence[int]) -> Released:
        pace = self._paces[queue]
        options = {"most": self._size, "window": round(pace.window.size)}
        if not pace.has_lines:
            released = await self._database.run(
                lambda connection: release.release(
                    connection, queue, self._bounds, published=published, counted=pace.counted, **options
                )
            )
            if not released.has_lines:
                return released
            published = ()
        return await self._database.run_in_transaction(
            lambda connection: lines.serve(connection, queue, self._bounds, pace.turns, published=published, **options)
        )

    async def _learn(self, queue: str, released: Released) -> float:
        await self.lending.learn(queue, released, self._size)
        if released.is_limited_by_window and time.monotonic() - self._slots_at > SLOTS_SECONDS:
            # The window is fitted to them.
            self._slots, self._slots_at = await self._database.run(fleet.slots), time.monotonic()
        wait = self._paces[queue].after(released, self._size, self._slots.get(queue, 0))
        if not wait:
            self._named.add(queue)
        return wait

    async def publish(self, batches: Sequence[OutboxBatch]) -> None:
        """Publish committed batches side by side. Raises the first Unavailable after all have been tried."""
        outcomes = await asyncio.gather(*(self._publish(batch) for batch in batches), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def _publish(self, batch: OutboxBatch) -> None:
        try:
            async with traced(self._database, Operation.RELEASE, batch.queue, [ref.id for ref in batch.refs]):
                await self._publisher.publish_due(JobBatch(batch.queue, batch.refs, batch.is_admitted))
        except Unroutable:
            log.error("returned as unroutable: the queue backs off", queue=batch.queue, jobs=len(batch.refs))
            self._topology.forget(batch.queue)
            await self._database.run(lambda connection: release.put_back(connection, batch, BACKOFF))
            await reschedule_lost(self._database, batch.queue)
        reach("release.confirmed")
        self._published.append(batch.id)
