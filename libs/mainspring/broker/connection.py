"""Connecting, declaring and probing. Drivers' errors are translated here, once, for the whole package."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractConnection
from aio_pika.exceptions import (
    AMQPError,
    ChannelPreconditionFailed,
    DeliveryError,
    PublishError,
)

from mainspring.broker.topology import Queue, Topology
from mainspring.domain.errors import BrokerUnavailable, Misconfigured

HEARTBEAT_SECONDS = 5
CONNECT_SECONDS = 5.0
DECLARE_SECONDS = 10.0


class Unroutable(BrokerUnavailable):
    """The broker returned a message: nothing is bound to its key."""


class Unconfirmed(BrokerUnavailable):
    """No confirm came in time: whether the message arrived is unknown."""


class Link:
    """An open connection that knows when it is lost; the driver's own flag only says that *we* closed it."""

    def __init__(self, connection: AbstractConnection) -> None:
        self._connection = connection
        self.lost = asyncio.Event()
        connection.close_callbacks.add(self._on_close)

    @property
    def is_closed(self) -> bool:
        """True once the connection is of no more use."""
        return self.lost.is_set() or self._connection.is_closed

    @property
    def server_version(self) -> str:
        """The broker's release, such as ``3.10.8``; empty once the connection is lost."""
        transport = self._connection.transport
        return "" if transport is None else str(transport.connection.server_properties.get("version", ""))

    async def is_blocked(self) -> bool:
        """True while the broker takes nothing from this connection: an alarm of its memory or disk.

        The broker tells a connection of its alarm only once that has published something.
        """
        transport = self._connection.transport
        if transport is None or self.is_closed:
            return False
        try:
            async with asyncio.timeout(0.01):
                await transport.connection.ready()
        except TimeoutError:
            return True
        return False

    async def channel(self, *, confirms: bool = False) -> AbstractChannel:
        """Open a channel; with ``confirms``, a returned message raises in its publish. Raises BrokerUnavailable."""
        with translated("channel"):
            async with asyncio.timeout(DECLARE_SECONDS):
                return await self._connection.channel(publisher_confirms=confirms, on_return_raises=confirms)

    async def close(self) -> None:
        """Close the connection; one that is lost is closed as well as can be."""
        with contextlib.suppress(BrokerUnavailable), translated("close"):
            async with asyncio.timeout(1):
                await self._connection.close()

    def _on_close(self, *_: object) -> None:
        self.lost.set()


@contextlib.contextmanager
def translated(what: str) -> Iterator[None]:
    """Turn the driver's errors into ours."""
    try:
        yield
    except PublishError as error:
        raise Unroutable(f"{what}: returned as unroutable") from error
    except DeliveryError as error:
        raise BrokerUnavailable(f"{what}: refused by the broker") from error
    except ChannelPreconditionFailed as error:
        raise Misconfigured(f"{what}: {error}") from error
    except TimeoutError as error:
        raise Unconfirmed(f"{what}: no answer in time") from error
    except (AMQPError, OSError, EOFError, RuntimeError, StopAsyncIteration) as error:
        # The driver raises RuntimeError from a channel or connection that has just been closed, and StopAsyncIteration
        # when it is cut off while it connects.
        raise BrokerUnavailable(f"{what}: {type(error).__name__}: {error}") from error
    except asyncio.CancelledError as error:
        current = asyncio.current_task()
        if current is None or current.cancelling():
            raise
        # Nobody cancelled us: it is how the driver tells those who wait for a connection that it closes.
        raise BrokerUnavailable(f"{what}: cut off") from error


async def connect(urls: str, name: str, heartbeat: int = HEARTBEAT_SECONDS) -> Link:
    """Connect to the first of the comma-separated ``urls`` that answers, with a ``heartbeat`` in seconds.

    Raises BrokerUnavailable.
    """
    failure: BrokerUnavailable | None = None
    for url in (part.strip() for part in urls.split(",")):
        try:
            with translated("connect"):
                connection = await aio_pika.connect(
                    url,
                    timeout=CONNECT_SECONDS,
                    heartbeat=heartbeat,
                    client_properties={"connection_name": name},
                )
            return Link(connection)
        except BrokerUnavailable as error:
            failure = error
    raise failure or BrokerUnavailable("no URL given")


@contextlib.asynccontextmanager
async def channel_of(link: Link) -> AsyncIterator[AbstractChannel]:
    """A channel for a short use. Raises BrokerUnavailable, Misconfigured."""
    channel = await link.channel()
    with translated("channel"):
        async with asyncio.timeout(DECLARE_SECONDS), channel:
            yield channel


async def declare(link: Link, topology: Topology) -> None:
    """Declare everything in ``topology``; what exists already is left as it is.

    Raises Misconfigured, naming the queue and the argument, when it exists with other arguments.
    """
    async with channel_of(link) as channel:
        for exchange in topology.exchanges:
            await channel.declare_exchange(exchange.name, exchange.kind, durable=True)
        for queue in topology.queues:
            await channel.declare_queue(queue.name, durable=True, arguments=queue.arguments)
        for binding in topology.bindings:
            if binding.to_exchange:
                target = await channel.get_exchange(binding.target, ensure=False)
                await target.bind(binding.source, binding.key)
            else:
                inbox = await channel.get_queue(binding.target, ensure=False)
                await inbox.bind(binding.source, binding.key)


async def declare_plain(link: Link, queue: Queue) -> None:
    """Declare one queue without bindings."""
    await declare(link, Topology(queues=(queue,)))
