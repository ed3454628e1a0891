"""Consuming, on a connection of its own; and the one place where messages are acknowledged.

A ``Delivery`` counts its jobs down: whoever makes a job's part of the message redundant (a committed row, or
a confirmed message with the same ticket) says so, and the last one acknowledges. A message that can't be
read is refused, and the queue's dead-letter exchange brings it to the dlq-handler.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Iterable

from aio_pika.abc import AbstractChannel, AbstractIncomingMessage, AbstractQueue

from mainspring.broker.connection import Link, connect, translated
from mainspring.broker.messages import JobBatch, decode
from mainspring.domain.errors import BrokerUnavailable, MainspringError, UnreadableMessage
from mainspring.domain.job import JobRef
from mainspring.domain.retry import reconnect_delay
from mainspring.telemetry import metrics
from mainspring.telemetry.logs import get_logger

log = get_logger(__name__)
RETRY_SECONDS = 0.5
#: Acknowledgements that are being sent: a consumer waits for them before it closes its connection.
_under_way: set[asyncio.Task[None]] = set()
OnMessage = Callable[[AbstractIncomingMessage], Awaitable[None]]


class Delivery:
    """A message in hand, with the jobs in it that are not yet redundant."""

    def __init__(self, message: AbstractIncomingMessage, batch: JobBatch) -> None:
        self._message = message
        self._left = set(batch.refs)
        self.batch = batch

    @property
    def body(self) -> bytes:
        """The message's body as it came."""
        return self._message.body

    @property
    def left(self) -> frozenset[JobRef]:
        """The references that still rest on this message."""
        return frozenset(self._left)

    def settle(self, refs: Iterable[JobRef]) -> None:
        """Say that ``refs`` no longer need this message; the last ones acknowledge it.

        Call it only after the commit, or the confirm, that makes them redundant.
        """
        had_some = bool(self._left)
        self._left.difference_update(refs)
        if had_some and not self._left:
            acknowledging = asyncio.create_task(_answer(self._message.ack()))
            _under_way.add(acknowledging)
            acknowledging.add_done_callback(_under_way.discard)

    async def give_back(self) -> None:
        """Return the whole message to its queue, at once."""
        if self._left:
            self._left.clear()
            await _answer(self._message.nack(requeue=True))


class RawDelivery:
    """A message of the dead queue, body and headers as they are: it may be unreadable on purpose."""

    def __init__(self, message: AbstractIncomingMessage) -> None:
        self._message = message
        self.body = message.body
        self.content_type = message.content_type
        #: The queue that set it aside; None for a message that was published here.
        deaths = message.headers.get("x-death")
        self.came_from = _first_queue(deaths)

    async def acknowledge(self) -> None:
        """Acknowledge, after what it says is recorded."""
        await _answer(self._message.ack())

    async def give_back(self) -> None:
        """Return it to its queue."""
        await _answer(self._message.nack(requeue=True))


def _first_queue(deaths: object) -> str | None:
    match deaths:
        case [{"queue": str(name)}, *_]:
            return name
    return None


async def _answer(answer: object) -> None:
    """An answer that can't be sent is no loss: the broker returns the message, and its tickets are stale."""
    with contextlib.suppress(BrokerUnavailable), translated("answer"):
        await answer  # type: ignore[misc]


class Subscription:
    """A queue's channel, and its consumer while there is one. A cancelled one's messages stay in hand."""

    def __init__(self, channel: AbstractChannel, on_lost: Callable[[], None]) -> None:
        self.channel = channel
        self._on_lost = on_lost
        self._is_cancelled_by_broker = False
        self._queue: AbstractQueue | None = None
        self._tag: str | None = None

    @property
    def is_lost(self) -> bool:
        """True when it brings nothing any more: its channel is closed, or its queue was deleted."""
        return self._is_cancelled_by_broker or self.channel.is_closed

    async def start(self, callback: OnMessage, name: str) -> None:
        """Begin to consume, unless it does already."""
        if self._tag is None:
            underlay = await self.channel.get_underlay_channel()
            underlay.on_consumer_cancel_callbacks.add(self._cancelled_by_broker)
            self._queue = await self.channel.get_queue(name, ensure=False)
            self._tag = await self._queue.consume(callback)

    async def cancel(self) -> None:
        """Take nothing more through this channel, which stays open for acknowledgements."""
        if self._queue is not None and self._tag is not None:
            with contextlib.suppress(BrokerUnavailable), translated("cancel consumer"):
                await self._queue.cancel(self._tag)
        self._tag = None

    def _cancelled_by_broker(self, *_: object) -> None:
        self._is_cancelled_by_broker = True
        self._on_lost()


class Consumer:
    """Consumes a changing set of queues, each through a channel of its own, and reconnects for ever.

    ``receive`` gets each readable message as a Delivery (``receive_raw`` instead gets all, unread). At most
    ``prefetch`` messages of a queue are in hand. ``on_state(problem)`` hears of each loss, and None when it works.
    """

    def __init__(
        self,
        urls: str,
        name: str,
        *,
        prefetch: int,
        receive: Callable[[Delivery], None] | None = None,
        receive_raw: Callable[[RawDelivery], None] | None = None,
        on_state: Callable[[str | None], None] = lambda _: None,
    ) -> None:
        self._urls = urls
        self._name = f"{name}.consume"
        self._prefetch = prefetch
        self._receive = receive
        self._receive_raw = receive_raw
        self._on_state = on_state
        self._wanted: frozenset[str] = frozenset()
        self._changed = asyncio.Event()
        self._settled = asyncio.Event()
        self._is_paused = False

    def consume(self, queues: Iterable[str]) -> None:
        """From now on consume exactly these queues; messages in hand of others go back to the broker."""
        wanted = frozenset(queues)
        if wanted != self._wanted:
            self._wanted = wanted
            self._settled.clear()
            self._changed.set()

    def pause(self) -> None:
        """Take nothing more for now; messages in hand stay in hand, and can still be acknowledged."""
        self._is_paused = True
        self._settled.clear()
        self._changed.set()

    def resume(self) -> None:
        """Consume again after ``pause``."""
        self._is_paused = False
        self._changed.set()

    async def stop_consuming(self) -> None:
        """As ``pause``; returns when the broker has heard of it, or can't be reached."""
        self.pause()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RETRY_SECONDS):
                await self._settled.wait()

    async def run(self) -> None:
        """Run until cancelled."""
        failures = 0
        while True:
            try:
                link = await connect(self._urls, self._name)
                failures = 0
                try:
                    await self._serve(link)
                finally:
                    if _under_way:
                        await asyncio.wait(_under_way, timeout=1)
                    await link.close()
            except BrokerUnavailable as error:
                failures += 1
                self._on_state(str(error))
                delay = reconnect_delay(failures, random.random())  # noqa: S311  a delay, not a secret
                log.warning("consumer cut off", consumer=self._name, error=str(error), retry_in=round(delay, 2))
                await asyncio.sleep(delay)

    async def _serve(self, link: Link) -> None:
        open_: dict[str, Subscription] = {}
        while not link.is_closed:
            self._changed.clear()
            missing = await self._adjust(link, open_)
            self._on_state(f"queues not there yet: {', '.join(missing)}" if missing else None)
            if not missing:
                self._settled.set()
            await self._wait(link.lost)
        raise BrokerUnavailable("connection lost")

    async def _wait(self, closed: asyncio.Event) -> None:
        waits = {asyncio.ensure_future(event.wait()) for event in (closed, self._changed)}
        _, pending = await asyncio.wait(waits, timeout=RETRY_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        for wait in pending:
            wait.cancel()

    async def _adjust(self, link: Link, open_: dict[str, Subscription]) -> list[str]:
        """Bring the subscriptions to what is wanted; returns the queues that aren't there."""
        for name in [name for name, one in open_.items() if one.is_lost or name not in self._wanted]:
            with translated("close channel"):
                await open_.pop(name).channel.close()
        if self._is_paused:
            for one in open_.values():
                await one.cancel()
            return []
        for name, one in open_.items():
            with translated(f"consume {name}"):
                await one.start(self._on_message, name)
        return [name for name in sorted(self._wanted - open_.keys()) if not await self._open(link, open_, name)]

    async def _open(self, link: Link, open_: dict[str, Subscription], name: str) -> bool:
        try:
            with translated(f"consume {name}"):
                channel = await link.channel()
                await channel.set_qos(prefetch_count=self._prefetch)
                one = Subscription(channel, self._changed.set)
                await one.start(self._on_message, name)
        except MainspringError:
            if link.is_closed:
                raise
            return False
        open_[name] = one
        return True

    async def _on_message(self, message: AbstractIncomingMessage) -> None:
        if self._receive_raw is not None:
            self._receive_raw(RawDelivery(message))
            return
        try:
            batch = decode(message.body, message.content_type)
        except UnreadableMessage as error:
            metrics.REJECTED.labels(error.reason).inc()
            log.warning("unreadable message refused", consumer=self._name, reason=error.reason)
            await _answer(message.reject(requeue=False))
            return
        if self._receive is not None:
            self._receive(Delivery(message, batch))
