"""Consuming, on a connection of its own.

A message that can't be read is refused, and the queue's dead-letter exchange brings it to the dlq-handler. A consumer
that hears nothing for a while though its queue holds messages is replaced by a new one.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from aio_pika.abc import AbstractChannel
from aiormq.abc import DeliveredMessage

from mainspring.broker.connection import Link, connect, translated
from mainspring.broker.delivery import Delivery, RawDelivery, finish_answers, refuse, tag_of
from mainspring.broker.messages import decode
from mainspring.broker.probe import look_at
from mainspring.domain.errors import BrokerUnavailable, MainspringError, UnreadableMessage
from mainspring.domain.retry import reconnect_delay
from mainspring.telemetry import metrics
from mainspring.telemetry.logs import get_logger

log = get_logger(__name__)
RETRY_SECONDS = 0.5
#: A queue that has a leader answers a new consumer at once.
CONSUME_SECONDS = 5.0
#: Silent queues that are looked at in one round.
LOOKS_AT_ONCE = 20
OnMessage = Callable[["Subscription", DeliveredMessage], Coroutine[Any, Any, None]]


class Subscription:
    """A queue's channel, and its consumer while there is one. A cancelled one's messages stay in hand."""

    def __init__(self, channel: AbstractChannel, prefetch: int, on_lost: Callable[[], None]) -> None:
        self.channel = channel
        self._prefetch = prefetch
        self._on_lost = on_lost
        self._is_cancelled_by_broker = False
        self._tag: str | None = None
        #: What the present consumer has brought and what isn't answered yet.
        self._in_hand: set[int] = set()
        self._heard_at = time.monotonic()
        #: True when it was found silent beside a queue that holds messages; the second time is proof.
        self.is_suspect = False

    @property
    def is_lost(self) -> bool:
        """True when it brings nothing any more: its channel is closed, or its queue was deleted."""
        return self._is_cancelled_by_broker or self.channel.is_closed

    @property
    def is_exhausted(self) -> bool:
        """True when the broker sends nothing more before something is answered."""
        return len(self._in_hand) >= self._prefetch

    def answered(self, message: DeliveredMessage) -> None:
        """A message is answered: the broker may send another one."""
        self._in_hand.discard(tag_of(message))
        self.hear()

    def hear(self) -> None:
        """Begin to count its silence anew."""
        self._heard_at = time.monotonic()
        self.is_suspect = False

    def is_silent_for(self, seconds: float) -> bool:
        """True when it consumes, has nothing in hand, and brought nothing for so long."""
        return self._tag is not None and not self._in_hand and time.monotonic() - self._heard_at > seconds

    async def start(self, receive: OnMessage, name: str) -> None:
        """Begin to consume, unless it does already."""
        if self._tag is not None:
            return

        async def on_message(message: DeliveredMessage) -> None:
            self._in_hand.add(tag_of(message))
            self.hear()
            await receive(self, message)

        self._in_hand.clear()
        self.hear()
        underlay = await self.channel.get_underlay_channel()
        underlay.on_consumer_cancel_callbacks.add(self._cancelled_by_broker)
        self._tag = (await underlay.basic_consume(name, on_message, timeout=CONSUME_SECONDS)).consumer_tag

    async def cancel(self) -> None:
        """Take nothing more through this channel, which stays open for acknowledgements."""
        if self._tag is not None:
            with contextlib.suppress(BrokerUnavailable), translated("cancel consumer"):
                await (await self.channel.get_underlay_channel()).basic_cancel(self._tag)
        self._tag = None

    def _cancelled_by_broker(self, *_: object) -> None:
        self._is_cancelled_by_broker = True
        self._on_lost()


class Consumer:
    """Consumes a changing set of queues, each through a channel of its own, and reconnects for ever.

    ``receive`` gets each readable message as a Delivery (``receive_raw`` instead gets all, unread). At most
    ``prefetch`` messages of a queue are in hand. ``on_state(problem)`` hears of each loss, and None when it works.
    ``silent_after``: seconds without a message after which it is asked whether the queue is empty.
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
        silent_after: float = 10.0,
    ) -> None:
        self._urls = urls
        self._name = f"{name}.consume"
        self._prefetch = prefetch
        self._receive = receive
        self._receive_raw = receive_raw
        self._on_state = on_state
        self._silent_after = silent_after
        self._wanted: frozenset[str] = frozenset()
        self._changed = asyncio.Event()
        self._settled = asyncio.Event()
        self._is_paused = False
        self._held_back: frozenset[str] = frozenset()
        self._wants_more = False
        self._open: dict[str, Subscription] = {}

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

    def hold_back(self, queues: Iterable[str]) -> None:
        """Take nothing more of exactly these queues for now; as ``pause``, for some."""
        held_back = frozenset(queues)
        if held_back != self._held_back:
            self._held_back = held_back
            self._changed.set()

    @property
    def is_exhausted(self) -> bool:
        """True when some queue has ``prefetch`` messages in hand, and brings nothing more before one is answered."""
        return any(one.is_exhausted for one in self._open.values())

    def take_more(self) -> None:
        """Have an exhausted queue bring more: all that its messages carry is running, and there is room.

        The broker counts what isn't answered for each consumer, so one that begins anew begins at zero.
        """
        self._wants_more = True
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
                    await finish_answers(1)
                    await link.close()
            except BrokerUnavailable as error:
                failures += 1
                self._on_state(str(error))
                delay = reconnect_delay(failures, random.random())  # noqa: S311  a delay, not a secret
                log.warning("consumer cut off", consumer=self._name, error=str(error), retry_in=round(delay, 2))
                await asyncio.sleep(delay)

    async def _serve(self, link: Link) -> None:
        self._open = {}
        while not link.is_closed:
            self._changed.clear()
            missing = await self._adjust(link)
            self._on_state(f"queues not there yet: {', '.join(missing)}" if missing else None)
            if not missing:
                self._settled.set()
            await self._wait(link.lost, RETRY_SECONDS if missing else self._silent_after / 4)
            await self._replace_silent(link)
        raise BrokerUnavailable("connection lost")

    async def _wait(self, closed: asyncio.Event, seconds: float) -> None:
        waits = {asyncio.ensure_future(event.wait()) for event in (closed, self._changed)}
        _, pending = await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for wait in pending:
            wait.cancel()

    async def _adjust(self, link: Link) -> list[str]:
        """Bring the subscriptions to what is wanted; returns the queues that aren't there."""
        for name in [name for name, one in self._open.items() if one.is_lost or name not in self._wanted]:
            with translated("close channel"):
                await self._open.pop(name).channel.close()
        wants_more, self._wants_more = self._wants_more, False
        for name, one in self._open.items():
            if self._is_paused or name in self._held_back or (wants_more and one.is_exhausted):
                await one.cancel()
        if self._is_paused:
            return []
        for name, one in self._open.items():
            if name not in self._held_back:
                with translated(f"consume {name}"):
                    await one.start(self._on_message, name)
        absent = sorted(self._wanted - self._open.keys() - self._held_back)
        subscribed = await asyncio.gather(*(self._subscribe(link, name) for name in absent))
        return [name for name, is_there in zip(absent, subscribed, strict=True) if not is_there]

    async def _replace_silent(self, link: Link) -> None:
        """Begin anew where nothing comes and something should."""
        silent = {name: one for name, one in self._open.items() if one.is_silent_for(self._silent_after)}
        silent = dict(itertools.islice(silent.items(), LOOKS_AT_ONCE))
        if not silent or link.is_closed:
            return
        try:
            empty = (await look_at(link, silent)).empty
        except BrokerUnavailable:
            # A broker that is slow to answer is no reason to give back what is in hand.
            for one in silent.values():
                one.hear()
            return
        for name, one in silent.items():
            if name in empty:
                one.hear()
            elif one.is_suspect and one.is_silent_for(self._silent_after):
                log.warning("consumer replaced: it brought nothing, and its queue isn't empty", queue=name)
                metrics.CONSUMERS_REPLACED.inc()
                with contextlib.suppress(BrokerUnavailable), translated("close channel"):
                    await self._open.pop(name).channel.close()
            else:
                one.is_suspect = True

    async def _subscribe(self, link: Link, name: str) -> bool:
        try:
            with translated(f"consume {name}"):
                channel = await link.channel()
                await channel.set_qos(prefetch_count=self._prefetch)
                channel.close_callbacks.add(lambda *_: self._changed.set())
                one = Subscription(channel, self._prefetch, self._changed.set)
                await one.start(self._on_message, name)
        except MainspringError:
            if link.is_closed:
                raise
            return False
        self._open[name] = one
        return True

    async def _on_message(self, source: Subscription, message: DeliveredMessage) -> None:
        if self._receive_raw is not None:
            self._receive_raw(RawDelivery(message, source.answered))
            return
        try:
            batch = decode(message.body, message.header.properties.content_type)
        except UnreadableMessage as error:
            metrics.REJECTED.labels(error.reason).inc()
            log.warning("unreadable message refused", consumer=self._name, reason=error.reason)
            source.answered(message)
            await refuse(message)
            return
        if self._receive is not None:
            self._receive(Delivery(message, batch, source.answered))
