"""The jobs of a fire, released by their own insert: a statement less for each, where only credit is asked for.

Whatever else a release judges keeps a job for one: a pause, limits, lines, turns, an earlier run that it waits for. Nor
does it come before others that wait: where a queue's window is half full, fires leave the rest of it to releases.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from uuid import UUID

from mainspring.store import release
from mainspring.store.pool import Conn
from mainspring.store.release import Counted, Place, PlainQueue
from mainspring_services.scheduler.queue_pace import COUNT_SECONDS

#: Of the half of a window that fires may use, what one transaction takes: others fire beside it.
SHARE = 4


@dataclass(slots=True)
class Room:
    """How many jobs of one transaction may be released as they are made, and those that are."""

    queues: dict[Place, str] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)
    taken: dict[str, list[UUID]] = field(default_factory=lambda: defaultdict(list))

    def take(self, place: Place, job_id: UUID) -> str | None:
        """The queue in which this job is released as it is made, or None."""
        queue = self.queues.get(place)
        if queue is None or self.left[queue] <= 0:
            return None
        self.left[queue] -= 1
        self.taken[queue].append(job_id)
        return queue


class ReleaseFired:
    """What one scheduler's fires go by; ``window_of`` says how many jobs of a queue may be in the broker."""

    def __init__(self, window_of: Callable[[str], int]) -> None:
        self._window_of = window_of
        #: By queue, and when it was counted (monotonic).
        self._counted: dict[str, tuple[Counted, float]] = {}

    async def room(self, connection: Conn, places: Iterable[Place]) -> Room:
        """What there is room for, for jobs of these tasks and queues."""
        queues = await release.queues_of(connection, list(places))
        left = {one.name: await self._free(connection, one) for one in set(queues.values())}
        return Room({place: one.name for place, one in queues.items()}, left)

    async def _free(self, connection: Conn, queue: PlainQueue) -> int:
        half = min(queue.release_window, self._window_of(queue.name)) // 2
        counted, at = self._counted.get(queue.name, (None, 0.0))
        now = time.monotonic()
        if counted is None or now - at > COUNT_SECONDS or counted.at_most(queue.last_id) > half:
            counted = Counted(await release.in_broker(connection, queue.name), queue.last_id)
            self._counted[queue.name] = counted, now
        return (half - counted.at_most(queue.last_id)) // SHARE
