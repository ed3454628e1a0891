"""One due message: admitted or returned, then on to the work queue, then acknowledged.

Without a limit the jobs go on under the tickets that they have, and Postgres isn't asked. What a commit or a
confirm has made redundant is settled; anything else leaves the message with the broker.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from datetime import timedelta

from mainspring.broker import topology
from mainspring.broker.connection import Unroutable, connect, declare
from mainspring.broker.delivery import Delivery
from mainspring.broker.messages import JobBatch, split
from mainspring.broker.publisher import Publisher
from mainspring.domain.errors import Unavailable
from mainspring.domain.job import JobRef
from mainspring.domain.retry import reconnect_delay
from mainspring.fault_points import reach
from mainspring.runtime.job_spans import traced
from mainspring.runtime.reschedule import reschedule_lost
from mainspring.store import admission
from mainspring.store.pool import Conn, Database
from mainspring.telemetry import metrics
from mainspring.telemetry.logs import get_logger
from mainspring.telemetry.tracing import Operation
from mainspring_services.dispatcher.fleet_view import FleetView

log = get_logger(__name__)
#: A message that can't be brought on within this many tries goes back to the broker.
MOST_TRIES = 4
PAUSED_DELAY = timedelta(seconds=1)


class Dispatch:
    """Takes deliveries and brings each to its end, side by side."""

    def __init__(self, urls: str, database: Database, publisher: Publisher, view: FleetView) -> None:
        self._urls = urls
        self._database = database
        self._publisher = publisher
        self._view = view
        self._at_work: set[asyncio.Task[None]] = set()

    def receive(self, delivery: Delivery) -> None:
        """Begin with a message."""
        work = asyncio.create_task(self._dispatch(delivery))
        self._at_work.add(work)
        work.add_done_callback(self._at_work.discard)

    async def finish(self) -> None:
        """Wait until all messages in hand are brought to their end."""
        if self._at_work:
            await asyncio.wait(self._at_work, timeout=5)

    async def _dispatch(self, delivery: Delivery) -> None:
        queue = delivery.batch.queue
        going: Sequence[JobRef] | None = None
        for failures in range(1, MOST_TRIES + 1):
            try:
                if going is None:
                    going = await self._judge(delivery.batch)
                # What was admitted has new tickets by now: a second try publishes these, and judges no more.
                async with traced(
                    self._database, Operation.DISPATCH, queue, [ref.id for ref in going], delivery.traceparent
                ):
                    await self._publish(queue, going)
            except Unavailable as error:
                log.warning("dispatch delayed", queue=queue, error=str(error))
                if isinstance(error, Unroutable) and await self._make_again(queue):
                    # These jobs are among those that are released again.
                    going = ()
                    continue
                await asyncio.sleep(reconnect_delay(failures, random.random(), 1.0))  # noqa: S311  a delay
            else:
                reach("dispatch.confirmed")
                delivery.settle(delivery.batch.refs)
                return
        await delivery.give_back()

    async def _make_again(self, queue: str) -> bool:
        """A returned message: the work queue is gone, with what was in it, or its binding. True when all is mended."""
        try:
            link = await connect(self._urls, "dispatcher.topology")
            try:
                await declare(link, topology.for_queue(queue))
            finally:
                await link.close()
            await reschedule_lost(self._database, queue)
        except Unavailable as error:
            log.warning("queue not made again", queue=queue, error=str(error))
            return False
        return True

    async def _judge(self, batch: JobBatch) -> Sequence[JobRef]:
        """The references that go on to the work queue, with the tickets that they have then."""
        queue, refs = batch.queue, batch.refs
        if self._view.is_paused(queue) and await self._return_paused(queue, refs):
            return ()
        if not batch.is_admitted and self._view.may_be_limited(queue):
            return await self._admit(queue, refs)
        return refs

    async def _admit(self, queue: str, refs: Sequence[JobRef]) -> Sequence[JobRef]:
        async def work(connection: Conn) -> admission.Admission | None:
            return await admission.admit(connection, queue, refs)

        answer = await self._database.run_in_transaction(work)
        if answer is None:
            return refs
        reach("admission.committed")
        metrics.BLOCKED.labels(queue).inc(answer.blocked)
        metrics.STALE.labels("dispatch").inc(answer.stale)
        return answer.admitted

    async def _return_paused(self, queue: str, refs: Sequence[JobRef]) -> bool:
        """True when the queue is paused, and its jobs wait in Postgres again."""
        returned = await self._database.run(
            lambda connection: admission.return_paused(connection, queue, refs, PAUSED_DELAY)
        )
        metrics.RETURNED.labels("paused").inc(returned or 0)
        return returned is not None

    async def _publish(self, queue: str, refs: Sequence[JobRef]) -> None:
        batches = list(split(queue, refs, self._view.refs_in_message(queue)))
        await asyncio.gather(*(self._publisher.publish_work(batch) for batch in batches))
        metrics.DISPATCHED.labels(queue).inc(len(refs))
