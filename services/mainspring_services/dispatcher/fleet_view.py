"""What the dispatcher knows of queues and workers: read again and again, never decided upon where it must be exact.

A pause is exact at the claim, a limit at the admission; what is read here only spares work.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from mainspring.domain.job import MOST_REFS
from mainspring.domain.limits import Kind, Limit
from mainspring.store.queues import Queue

#: How many jobs a message holds for a queue that no worker serves (yet).
UNKNOWN_SLOTS = 10


@dataclass(slots=True)
class FleetView:
    """The last reading."""

    queues: dict[str, Queue] = field(default_factory=dict)
    limits: Sequence[Limit] = ()
    #: For each queue the slots of its largest worker.
    largest: dict[str, int] = field(default_factory=dict)
    read_at: float = field(default_factory=time.monotonic)

    def is_paused(self, queue: str) -> bool:
        """True when the queue was paused at the last reading."""
        known = self.queues.get(queue)
        return known is not None and known.paused

    def may_be_limited(self, queue: str) -> bool:
        """True when jobs of the queue may be under a concurrency limit: asking once too often is harmless."""
        if queue not in self.queues:
            return True
        return any(queue in limit.queues or limit.tasks for limit in self.limits if limit.kind is Kind.CONCURRENCY)

    def refs_in_message(self, queue: str) -> int:
        """As many jobs as one worker can start at once, so that none holds what another could run."""
        return max(1, min(self.largest.get(queue, UNKNOWN_SLOTS), MOST_REFS))
