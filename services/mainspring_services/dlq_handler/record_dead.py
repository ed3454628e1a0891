"""Messages of the dead queue: each is recorded or alerted, then acknowledged.

Three kinds arrive. A notice of dead jobs, whose rows are there already: it waits for their alert. A message
that a queue set aside and that can't be read: its raw body is kept, with the reason. A readable one that a
queue set aside (too many returns): no job of it is dead, so those that nothing else carries are scheduled again.
"""

from __future__ import annotations

import asyncio

from mainspring.broker.delivery import RawDelivery
from mainspring.broker.messages import JobBatch, decode
from mainspring.domain.errors import Unavailable, UnreadableMessage
from mainspring.runtime.job_spans import traced
from mainspring.store import dead_letters
from mainspring.store.pool import Database
from mainspring.telemetry import metrics
from mainspring.telemetry.logs import get_logger
from mainspring.telemetry.tracing import Operation
from mainspring_services.dlq_handler.alert import Alert

log = get_logger(__name__)
RETURN_SECONDS = 1.0


class RecordDead:
    """Takes raw deliveries and brings each to its end, side by side."""

    def __init__(self, database: Database, alert: Alert) -> None:
        self._database = database
        self._alert = alert
        self._at_work: set[asyncio.Task[None]] = set()

    def receive(self, delivery: RawDelivery) -> None:
        """Begin with a message."""
        work = asyncio.create_task(self._bring_to_end(delivery))
        self._at_work.add(work)
        work.add_done_callback(self._at_work.discard)

    async def _bring_to_end(self, delivery: RawDelivery) -> None:
        try:
            await self._record(delivery)
        except Unavailable as error:
            log.warning("dead letter delayed", error=str(error))
            await asyncio.sleep(RETURN_SECONDS)
            await delivery.give_back()
        else:
            await delivery.acknowledge()

    async def _record(self, delivery: RawDelivery) -> None:
        try:
            batch = decode(delivery.body, delivery.content_type)
        except UnreadableMessage as error:
            await self._keep_unreadable(delivery, error)
            return
        if delivery.came_from is None:
            ids = [ref.id for ref in batch.refs]
            async with traced(self._database, Operation.BURY, batch.queue, ids, delivery.traceparent):
                await self._alert.send_for(ids)
        else:
            await self._reschedule(delivery.came_from, batch)

    async def _keep_unreadable(self, delivery: RawDelivery, error: UnreadableMessage) -> None:
        await self._database.run(
            lambda connection: dead_letters.record_message(
                connection, reason=error.reason, queue=delivery.came_from, body=delivery.body, detail=str(error)
            )
        )

    async def _reschedule(self, came_from: str, batch: JobBatch) -> None:
        count = await self._database.run(lambda connection: dead_letters.reschedule_set_aside(connection, batch.refs))
        metrics.RECONCILED.labels("set_aside").inc(count)
        log.warning("message set aside by the broker", came_from=came_from, jobs=len(batch.refs), scheduled_again=count)
