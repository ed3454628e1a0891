"""Shows the worker to the others: that it lives, what it serves, how many slots are free."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from mainspring.runtime.loop import Pass
from mainspring.store import fleet
from mainspring.store.fleet import Worker
from mainspring.store.pool import Database
from mainspring.worker.slots import Slots


@dataclass(frozen=True, slots=True)
class ShowWorker:
    """The loop's configuration."""

    database: Database
    slots: Slots
    worker_id: UUID
    version: str
    queues: tuple[str, ...]
    tasks: tuple[str, ...]
    labels: tuple[str, ...]

    async def run_once(self) -> Pass:
        """Beat once."""
        worker = Worker(
            self.worker_id,
            socket.gethostname(),
            os.getpid(),
            self.version,
            self.queues,
            self.tasks,
            self.labels,
            self.slots.total,
            self.slots.free,
        )
        await self.database.run(lambda connection: fleet.beat_worker(connection, worker))
        return Pass()


def offered(catalogue: Sequence[dict[str, Any]], labels: Sequence[str]) -> list[dict[str, Any]]:
    """The tasks that a worker with these labels runs: those that require no other."""
    return [entry for entry in catalogue if set(entry["requires"]) <= set(labels)]


def queues_of(asked: Sequence[str], catalogue: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """The queues to serve: those asked for, else those of the tasks and the default one."""
    return tuple(asked) or tuple(sorted({"default", *(entry["queue"] for entry in catalogue)}))
