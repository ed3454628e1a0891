"""Keeps the view of queues and workers fresh, and decides whether this dispatcher may consume at all.

A dispatcher that has lost Postgres can admit nothing: it cancels its consumers, and the broker activates
another one.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mainspring.broker import topology
from mainspring.broker.consumer import Consumer
from mainspring.runtime.health import Health
from mainspring.runtime.loop import Pass
from mainspring.store import fleet, limits, queues
from mainspring.store.pool import Database
from mainspring_services.dispatcher.fleet_view import FleetView


@dataclass(frozen=True, slots=True)
class WatchFleet:
    """Reads Postgres."""

    database: Database
    view: FleetView

    async def run_once(self) -> Pass:
        """Read queues and workers once."""
        found = await self.database.run(queues.all_queues)
        workers = await self.database.run(fleet.workers)
        self.view.limits = await self.database.run(limits.all_limits)
        self.view.queues = {queue.name: queue for queue in found}
        self.view.largest = _largest(workers)
        self.view.read_at = time.monotonic()
        return Pass(done=len(found))


@dataclass(frozen=True, slots=True)
class ConsumeOrNot:
    """Consumes every queue while Postgres answers, and none when it hasn't for ``silence`` seconds."""

    consumer: Consumer
    view: FleetView
    health: Health
    silence: float

    async def run_once(self) -> Pass:
        """Adjust the consumers to the last reading."""
        age = time.monotonic() - self.view.read_at
        if age > self.silence:
            self.health.down("fleet", f"no answer for {age:.0f} s: nothing is consumed")
            self.consumer.consume(())
        else:
            self.health.up("fleet")
            self.consumer.consume(topology.due_queue(name) for name in self.view.queues)
        return Pass()


def _largest(workers: Sequence[Any]) -> dict[str, int]:
    largest: dict[str, int] = {}
    for worker in workers:
        for queue in worker["queues"]:
            largest[queue] = max(largest.get(queue, 0), worker["slots"])
    return largest
