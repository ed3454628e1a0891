"""What this scheduler has declared in the broker in the current epoch."""

from __future__ import annotations

import asyncio
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

    async def look(self, epoch: Epoch) -> Presence:
        """Look at every queue that should be there; the epoch's own is missing after amnesia."""
        names = [topology.epoch_queue(str(epoch.id)).name, *(queue.name for queue in topology.fixed().queues)]
        for queue in sorted(self._declared):
            names += [topology.due_queue(queue), topology.work_queue(queue)]
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
            return self._link
