"""When a queue is to be looked at again, and how much of it may be in the broker: what is kept between two releases."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

from mainspring.domain.turns import Turns
from mainspring.domain.window import Window
from mainspring.store.release import Counted, Released

#: Waits of a queue whose credit is used up: short while work flows, longer while nothing moves.
SHORTEST_WAIT = 0.005
LONGEST_WAIT = 0.25
#: What a queue waits at most whose credit has just been used up: a quarter of its jobs' time in the broker.
REFILL_WAIT = 0.05
#: How long a count of what is in the broker is worth something: retries come there by themselves.
COUNT_SECONDS = 1.0
#: A queue whose due jobs are all released is looked at again after so long: what comes sooner wakes the loop.
LOOK_WAIT = 0.02


@dataclass(slots=True)
class QueuePace:
    """Of one queue, in one scheduler."""

    turns: Turns = field(default_factory=Turns)
    window: Window = field(default_factory=Window)
    has_lines: bool = False
    #: When to look at its lines again, whose jobs are due already (monotonic); never, while nobody waits in them.
    lines_at: float = math.inf
    _stuck: float = SHORTEST_WAIT
    _counted: Counted | None = None
    _counted_at: float = -math.inf

    @property
    def counted(self) -> Counted | None:
        """What was in the broker a moment ago."""
        return self._counted if time.monotonic() - self._counted_at < COUNT_SECONDS else None

    def after(self, released: Released, most: int, slots: int) -> float:
        """Learn from a release of up to ``most`` jobs; returns the seconds until the next. ``slots``: all workers'."""
        now = time.monotonic()
        if released.counted:
            self._counted, self._counted_at = released.counted, now
        if released.is_limited_by_window:
            self.window.fit(released.age, slots, now)
        wait = self._wait(released, most)
        if not released.is_locked_elsewhere:
            self.has_lines = released.has_lines
        self.lines_at = now + wait if self.has_lines and released.has_waiting else math.inf
        return wait

    def _wait(self, released: Released, most: int) -> float:
        if released.has_more or most <= released.count < released.credit:
            return 0.0
        if released.count:
            self._stuck = SHORTEST_WAIT
            if released.count >= released.credit:
                # Credit comes back a little at a time: what has come together by then is worth a statement.
                return min(max((released.age or 0.0) / 4, SHORTEST_WAIT), REFILL_WAIT)
            # They take their tokens as they start, which is shortly.
            return LOOK_WAIT + (released.waits_for_rate or 0.0)
        if released.waits_for_rate is not None:
            return released.waits_for_rate
        if released.is_locked_elsewhere or (released.credit and not released.waits_for_room):
            return LONGEST_WAIT
        wait = self._stuck
        self._stuck = min(wait * 2, LONGEST_WAIT)
        return wait
