"""Publishing: persistent, confirmed, mandatory, with a timeout; on a connection of its own.

A publish that returns has been confirmed. One that raises may or may not have arrived: publishing again
is normal, since a second copy of a ticket costs a look-up and changes nothing.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta

from aio_pika.abc import AbstractChannel
from aiormq import spec
from pamqp.common import FieldTable

from mainspring.broker import delay_ladder, topology
from mainspring.broker.connection import Link, Unconfirmed, Unroutable, connect, translated
from mainspring.broker.messages import CONTENT_TYPE, TRACE_HEADER, JobBatch, encode
from mainspring.fault_points import is_lie
from mainspring.telemetry import metrics, tracing

CONFIRM_SECONDS = 5.0
PERSISTENT = 2


class Publisher:
    """Sends batches to the four places that batches go to. Connects when first used, and again when cut off."""

    def __init__(self, urls: str, name: str) -> None:
        self._urls = urls
        self._name = f"{name}.publish"
        self._opening = asyncio.Lock()
        self._link: Link | None = None
        self._channel: AbstractChannel | None = None

    async def publish_due(self, batch: JobBatch) -> None:
        """Hand a released batch to the dispatcher. Raises BrokerUnavailable, Unroutable."""
        await self._publish(topology.DUE, delay_ladder.routing_key(0, batch.queue), encode(batch))

    async def publish_delayed(self, batch: JobBatch, delay: timedelta) -> None:
        """Hand a batch to the dispatcher after ``delay``, rounded up to a tick."""
        ticks = delay_ladder.ticks_for(delay)
        level = delay_ladder.entry_level(ticks)
        exchange = topology.DUE if level is None else topology.delay_exchange(level)
        await self._publish(exchange, delay_ladder.routing_key(ticks, batch.queue), encode(batch))

    async def publish_work(self, batch: JobBatch) -> None:
        """Hand a batch to the workers of its queue."""
        await self._publish(topology.WORK, batch.queue, encode(batch))

    async def publish_dead(self, batch: JobBatch) -> None:
        """Tell the dlq-handler of dead jobs."""
        await self._publish(topology.DEAD, batch.queue, encode(batch))

    async def close(self) -> None:
        """Close the connection."""
        link, self._link, self._channel = self._link, None, None
        if link is not None:
            await link.close()

    async def _publish(self, exchange: str, key: str, body: bytes) -> None:
        traceparent = tracing.current_traceparent() if tracing.is_on() else None
        headers: FieldTable | None = {TRACE_HEADER: traceparent} if traceparent else None
        properties = spec.Basic.Properties(content_type=CONTENT_TYPE, delivery_mode=PERSISTENT, headers=headers)
        try:
            with translated(f"publish to {exchange}"):
                channel = await (await self._open()).get_underlay_channel()
                await channel.basic_publish(
                    body,
                    exchange=exchange,
                    routing_key=key,
                    properties=properties,
                    mandatory=True,
                    timeout=CONFIRM_SECONDS,
                )
                if is_lie("publish"):
                    raise TimeoutError("a test says so: it was done")
        except Unroutable:
            metrics.PUBLISH_RETURNED.labels(exchange).inc()
            raise
        except Unconfirmed:
            metrics.PUBLISH_TIMED_OUT.labels(exchange).inc()
            await self._give_up_channel()
            raise
        metrics.PUBLISHED.labels(exchange).inc()

    async def _open(self) -> AbstractChannel:
        async with self._opening:
            if self._link is None or self._link.is_closed:
                self._link = await connect(self._urls, self._name)
                self._channel = None
            if self._channel is None or self._channel.is_closed:
                self._channel = await self._link.channel(confirms=True)
            return self._channel

    async def _give_up_channel(self) -> None:
        """After a missing confirm the connection may be half-open: the next publish makes a new one."""
        link, self._link, self._channel = self._link, None, None
        if link is not None:
            await link.close()
