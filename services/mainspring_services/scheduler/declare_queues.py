"""Queues that Postgres knows → queues in the broker, before anything is released into them: workers wait for theirs."""

from __future__ import annotations

from dataclasses import dataclass

from mainspring.runtime.loop import Pass
from mainspring.store import queues
from mainspring.store.pool import Database
from mainspring_services.scheduler.queue_topology import QueueTopology


@dataclass(frozen=True, slots=True)
class DeclareQueues:
    """The loop's configuration."""

    database: Database
    topology: QueueTopology

    async def run_once(self) -> Pass:
        """Make the queues that submits have used first; declare what this process hasn't."""
        known = await self.database.run(queues.names)
        if any(not is_made for is_made in known.values()):
            await self.database.run(queues.adopt_queues)
        for queue in known:
            await self.topology.declare_queue(queue)
        return Pass()
