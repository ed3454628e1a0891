"""Keeps the view of queues and workers fresh, and decides whether this dispatcher may consume at all.

A dispatcher that has lost Postgres can admit nothing: it cancels its consumers, and the broker activates
another one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from mainspring.broker import topology
from mainspring.broker.consumer import Consumer
from mainspring.runtime.health import Health
from mainspring.runtime.loop import Pass
from mainspring.store import queues
from mainspring.store.pool import Database
from mainspring_services.dispatcher.fleet_view import FleetView


@dataclass(frozen=True, slots=True)
class WatchFleet:
    """Reads Postgres. ``on_change`` is called when other queues are there than before."""

    database: Database
    view: FleetView
    on_change: Callable[[], None]

    async def run_once(self) -> Pass:
        """Read queues and workers once."""
        found = {queue.name: queue for queue in await self.database.run(queues.dispatched)}
        is_other = found.keys() != self.view.queues.keys()
        self.view.queues, self.view.read_at = found, time.monotonic()
        if is_other:
            self.on_change()
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
