"""What the dispatcher knows of queues and workers: read again and again, never decided upon where it must be exact.

A pause is exact at the claim, a limit at the admission; what is read here only spares work.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from mainspring.domain.job import MOST_REFS
from mainspring.store.queues import DispatchedQueue

#: How many jobs a message holds for a queue that no worker serves (yet).
UNKNOWN_SLOTS = 10


@dataclass(slots=True)
class FleetView:
    """The last reading."""

    queues: Mapping[str, DispatchedQueue] = field(default_factory=dict)
    read_at: float = field(default_factory=time.monotonic)

    def is_paused(self, queue: str) -> bool:
        """True when the queue was paused at the last reading."""
        known = self.queues.get(queue)
        return known is not None and known.paused

    def may_be_limited(self, queue: str) -> bool:
        """True when jobs of the queue may be under a concurrency limit: asking once too often is harmless."""
        known = self.queues.get(queue)
        return known is None or known.may_be_limited

    def refs_in_message(self, queue: str) -> int:
        """As many jobs as one worker can start at once, so that none holds what another could run."""
        known = self.queues.get(queue)
        slots = UNKNOWN_SLOTS if known is None or known.largest is None else known.largest
        return max(1, min(slots, MOST_REFS))
