"""Connecting, declaring and probing. Drivers' errors are translated here, once, for the whole package."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Iterator

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractConnection
from aio_pika.exceptions import (
    AMQPError,
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
    DeliveryError,
    PublishError,
)

from mainspring.broker.topology import Queue, Topology
from mainspring.domain.errors import BrokerUnavailable, Misconfigured

#: A connection as the rest of Mainspring handles it: opened here, closed by whoever opened it.
Link = AbstractConnection

HEARTBEAT_SECONDS = 5
CONNECT_SECONDS = 5.0
DECLARE_SECONDS = 10.0


class Unroutable(BrokerUnavailable):
    """The broker returned a message: nothing is bound to its key."""


class Unconfirmed(BrokerUnavailable):
    """No confirm came in time: whether the message arrived is unknown."""


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
    except (AMQPError, OSError, RuntimeError) as error:
        # The driver raises RuntimeError from a channel or connection that has just been closed.
        raise BrokerUnavailable(f"{what}: {type(error).__name__}: {error}") from error


async def connect(urls: str, name: str) -> AbstractConnection:
    """Connect to the first of the comma-separated ``urls`` that answers. Raises BrokerUnavailable."""
    failure: BrokerUnavailable | None = None
    for url in (part.strip() for part in urls.split(",")):
        try:
            with translated("connect"):
                return await aio_pika.connect(
                    url,
                    timeout=CONNECT_SECONDS,
                    heartbeat=HEARTBEAT_SECONDS,
                    client_properties={"connection_name": name},
                )
        except BrokerUnavailable as error:
            failure = error
    raise failure or BrokerUnavailable("no URL given")


@contextlib.asynccontextmanager
async def channel_of(connection: AbstractConnection) -> AsyncIterator[AbstractChannel]:
    """A channel for a short use. Raises BrokerUnavailable, Misconfigured."""
    with translated("channel"):
        async with asyncio.timeout(DECLARE_SECONDS), connection.channel() as channel:
            yield channel


async def declare(connection: AbstractConnection, topology: Topology) -> None:
    """Declare everything in ``topology``; what exists already is left as it is.

    Raises Misconfigured, naming the queue and the argument, when it exists with other arguments.
    """
    async with channel_of(connection) as channel:
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


async def declare_plain(connection: AbstractConnection, queue: Queue) -> None:
    """Declare one queue without bindings."""
    await declare(connection, Topology(queues=(queue,)))


async def missing_queues(connection: AbstractConnection, names: Iterable[str]) -> list[str]:
    """Those of ``names`` that don't exist in the broker."""
    missing = []
    wanted = list(names)
    while wanted:
        # A failed passive declare closes its channel: go on with the rest on a new one.
        absent = await _first_missing(connection, wanted)
        if absent is None:
            break
        missing.append(absent)
        wanted = wanted[wanted.index(absent) + 1 :]
    return missing


async def _first_missing(connection: AbstractConnection, names: list[str]) -> str | None:
    name = ""
    try:
        with translated("probe"):
            async with asyncio.timeout(DECLARE_SECONDS):
                channel = await connection.channel()
                for name in names:
                    await channel.declare_queue(name, passive=True)
                await channel.close()
    except BrokerUnavailable as error:
        if isinstance(error.__cause__, ChannelNotFoundEntity):
            return name
        raise
    return None
