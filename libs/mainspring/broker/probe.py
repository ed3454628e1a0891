"""Asking the broker what it has, and whether that works: which queues are there, empty, or without a leader."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

from aio_pika import Message
from aio_pika.abc import AbstractChannel
from aio_pika.exceptions import ChannelNotFoundEntity
from aiormq.exceptions import ChannelLockedResource

from mainspring.broker.connection import DECLARE_SECONDS, Link, Unconfirmed, translated
from mainspring.domain.errors import BrokerUnavailable

#: A queue that answers at all answers within milliseconds; an election takes a few seconds at most.
ANSWER_SECONDS = 5.0
#: A key of the default exchange that no queue has: what is sent there is confirmed and dropped.
_NOWHERE = "mainspring.nowhere"


@dataclass(slots=True)
class Presence:
    """What a look at queues found: those that don't exist, and those that show no message (or have no leader)."""

    missing: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)


async def look_at(link: Link, names: Iterable[str]) -> Presence:
    """Ask for each of ``names`` whether it exists. Raises BrokerUnavailable."""
    found = Presence()
    wanted = list(names)
    while wanted:
        # A failed passive declare closes its channel: go on with the rest on a new one.
        absent = await _look_until_missing(link, wanted, found)
        if absent is None:
            break
        found.missing.append(absent)
        wanted = wanted[wanted.index(absent) + 1 :]
    return found


async def _look_until_missing(link: Link, names: list[str], found: Presence) -> str | None:
    name = ""
    channel = await link.channel()
    try:
        with translated("probe"):
            async with asyncio.timeout(DECLARE_SECONDS):
                for name in names:
                    answer = await channel.declare_queue(name, passive=True)
                    if not answer.declaration_result.message_count:
                        found.empty.append(name)
                await channel.close()
    except BrokerUnavailable as error:
        if isinstance(error.__cause__, ChannelNotFoundEntity):
            return name
        raise
    return None


async def leaderless(link: Link, names: Iterable[str]) -> list[str]:
    """Those of ``names``, which show no message, that give no answer: quorum queues that have lost their leader.

    Such a queue can be declared and counted, and takes and gives no message (RabbitMQ 3.10 after a kill in the half
    second after the declaration; a member that lost its data). A get asks the leader itself. Raises BrokerUnavailable.
    """
    asked = list(names)
    answers = await asyncio.gather(*(_has_leader(link, name) for name in asked))
    return [name for name, has_leader in zip(asked, answers, strict=True) if not has_leader]


async def _has_leader(link: Link, name: str) -> bool:
    channel = await link.channel()
    try:
        with translated("probe"):
            underlay = await channel.get_underlay_channel()
            got = await underlay.basic_get(name, timeout=ANSWER_SECONDS)
            if got.delivery_tag is not None:
                await underlay.basic_nack(got.delivery_tag, requeue=True)
            await channel.close()
    except Unconfirmed:
        return False
    except BrokerUnavailable as error:
        # A single-active-consumer queue refuses every get, and it is its leader that does; one that is gone is
        # found to be missing.
        if not isinstance(error.__cause__, (ChannelLockedResource, ChannelNotFoundEntity)):
            raise
    return True


async def delete_queues(link: Link, names: Iterable[str]) -> None:
    """Delete these queues with what is in them, side by side: one without a leader takes five seconds.

    Raises BrokerUnavailable.
    """
    await asyncio.gather(*(_delete(link, name) for name in names))


async def _delete(link: Link, name: str) -> None:
    channel = await link.channel()
    with translated("delete queue"):
        underlay = await channel.get_underlay_channel()
        await underlay.queue_delete(name, timeout=ANSWER_SECONDS + DECLARE_SECONDS)
        await channel.close()


class Nowhere:
    """Publishes messages that reach no queue, through one channel of a link: whether the broker takes any at all."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._channel: AbstractChannel | None = None

    async def publish(self) -> None:
        """Publish one, and wait for its confirm. Raises BrokerUnavailable, Unconfirmed."""
        if self._channel is None or self._channel.is_closed:
            self._channel = await self._link.channel(confirms=True)
        with translated("publish"):
            await self._channel.default_exchange.publish(
                Message(b""), _NOWHERE, mandatory=False, timeout=ANSWER_SECONDS
            )
