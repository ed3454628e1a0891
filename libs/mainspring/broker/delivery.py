"""Messages in hand, and the one place where they are acknowledged.

A ``Delivery`` counts its jobs down: whoever makes a job's part of the message redundant (a committed row, or
a confirmed message with the same ticket) says so, and the last one acknowledges.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from aiormq.abc import DeliveredMessage

from mainspring.broker.connection import translated
from mainspring.broker.messages import TRACE_HEADER, JobBatch
from mainspring.domain.errors import BrokerUnavailable
from mainspring.domain.job import JobRef
from mainspring.domain.trace import usable_traceparent
from mainspring.fault_points import reach

#: Acknowledgements that are being sent.
_under_way: set[asyncio.Task[None]] = set()


async def finish_answers(seconds: float) -> None:
    """Wait for the acknowledgements that are being sent: a connection is closed after them."""
    if _under_way:
        await asyncio.wait(_under_way, timeout=seconds)


class Delivery:
    """A message in hand, with the jobs in it that are not yet redundant."""

    def __init__(
        self, message: DeliveredMessage, batch: JobBatch, answered: Callable[[DeliveredMessage], None]
    ) -> None:
        self._message = message
        self._answered = answered
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

    @property
    def traceparent(self) -> str | None:
        """The context of the span that sent the message."""
        return _traceparent(self._message.header.properties.headers)

    def settle(self, refs: Iterable[JobRef]) -> None:
        """Say that ``refs`` no longer need this message; the last ones acknowledge it.

        Call it only after the commit, or the confirm, that makes them redundant.
        """
        had_some = bool(self._left)
        self._left.difference_update(refs)
        if had_some and not self._left:
            self._answered(self._message)
            acknowledging = asyncio.create_task(_send(_ack(self._message)))
            _under_way.add(acknowledging)
            acknowledging.add_done_callback(_under_way.discard)

    async def give_back(self) -> None:
        """Return the whole message to its queue, at once."""
        if self._left:
            self._left.clear()
            self._answered(self._message)
            await _send(_return(self._message))


class RawDelivery:
    """A message of the dead queue, body and headers as they are: it may be unreadable on purpose."""

    def __init__(self, message: DeliveredMessage, answered: Callable[[DeliveredMessage], None]) -> None:
        self._message = message
        self._answered = answered
        self.body = message.body
        properties = message.header.properties
        self.content_type = properties.content_type
        self.traceparent = _traceparent(properties.headers)
        #: The queue that set it aside; None for a message that was published here.
        self.came_from = _first_queue((properties.headers or {}).get("x-death"))

    async def acknowledge(self) -> None:
        """Acknowledge, after what it says is recorded."""
        self._answered(self._message)
        await _send(_ack(self._message))

    async def give_back(self) -> None:
        """Return it to its queue."""
        self._answered(self._message)
        await _send(_return(self._message))


def _traceparent(headers: Mapping[str, Any] | None) -> str | None:
    found = (headers or {}).get(TRACE_HEADER)
    return usable_traceparent(found) if isinstance(found, str) else None


def _first_queue(deaths: object) -> str | None:
    match deaths:
        case [{"queue": str(name)}, *_]:
            return name
    return None


def tag_of(message: DeliveredMessage) -> int:
    assert message.delivery_tag is not None  # noqa: S101  every message that was delivered has one
    return message.delivery_tag


def _ack(message: DeliveredMessage) -> Awaitable[None]:
    return message.channel.basic_ack(tag_of(message))


def _return(message: DeliveredMessage) -> Awaitable[None]:
    return message.channel.basic_nack(tag_of(message), requeue=True)


async def _send(answer: Awaitable[None]) -> None:
    """An answer that can't be sent is no loss: the broker returns the message, and its tickets are stale."""
    with contextlib.suppress(BrokerUnavailable), translated("answer"):
        await answer
        reach("acknowledged")


async def refuse(message: DeliveredMessage) -> None:
    """Have the queue's dead-letter exchange take it."""
    await _send(message.channel.basic_reject(tag_of(message), requeue=False))
