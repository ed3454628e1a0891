"""What this scheduler has declared in the broker in the current epoch."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence

from mainspring.broker import topology
from mainspring.broker.connection import Link, connect, declare, declare_plain
from mainspring.broker.probe import Presence, delete_queues, leaderless, look_at
from mainspring.store.reconcile import Epoch


class QueueTopology:
    """Declares queues once, and can say which of them have gone. Connects when first used."""

    def __init__(self, urls: str) -> None:
        self._urls = urls
        self._connecting = asyncio.Lock()
        self._link: Link | None = None
        self._declared: set[str] = set()
        self._connected_at = 0.0

    @property
    def connected_for(self) -> float:
        """Seconds since the present connection was made."""
        return time.monotonic() - self._connected_at

    @property
    def count(self) -> int:
        """How many queues this process has declared."""
        return len(self._declared)

    async def declare_queue(self, queue: str) -> None:
        """Declare the due and work queues of ``queue``, if this process hasn't in this epoch."""
        if queue not in self._declared:
            await declare(await self._connected(), topology.for_queue(queue))
            self._declared.add(queue)

    async def declare_all(self, queues: Iterable[str]) -> None:
        """Declare everything again: after the broker has forgotten."""
        self._declared.clear()
        await declare(await self._connected(), topology.fixed())
        for queue in queues:
            await self.declare_queue(queue)

    async def mark_epoch(self, epoch: Epoch, old: Epoch) -> None:
        """Declare the epoch's queue: the last step, so that a crash before it is noticed. The old one's goes."""
        link = await self._connected()
        await declare_plain(link, topology.epoch_queue(str(epoch.id)))
        await delete_queues(link, [topology.epoch_queue(str(old.id)).name])

    def names(self) -> list[str]:
        """Every queue of the broker that should be there, but for the epoch's."""
        declared = [name(queue) for queue in self._declared for name in (topology.due_queue, topology.work_queue)]
        return [*(queue.name for queue in topology.fixed().queues), *declared]

    async def look(self, names: Iterable[str]) -> Presence:
        """Ask for each of these queues whether it is there, and empty."""
        return await look_at(await self._connected(), names)

    async def leaderless(self, names: Sequence[str]) -> list[str]:
        """Those of these queues, which should be empty, that gave no answer."""
        link = await self._connected()
        silent = await leaderless(link, names)
        if silent:
            # A question without an answer blocks its channel: go on with a connection that has none.
            await link.close()
        return silent

    async def delete(self, names: Sequence[str]) -> None:
        """Delete queues, with whatever may be in them."""
        await delete_queues(await self._connected(), names)

    def forget(self, queue: str) -> None:
        """Declare this queue again before its next release."""
        self._declared.discard(queue)

    async def close(self) -> None:
        """Close the connection."""
        if self._link is not None:
            await self._link.close()

    async def _connected(self) -> Link:
        async with self._connecting:
            if self._link is None or self._link.is_closed:
                self._link = await connect(self._urls, "scheduler.topology")
                self._connected_at = time.monotonic()
            return self._link
