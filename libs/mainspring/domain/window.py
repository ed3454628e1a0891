"""How many jobs of a queue may be in the broker: as few as keep the workers busy.

What is there already comes before an urgent job that comes now. So the window follows the time that jobs spend there:
about GOAL on average, and the queue's own ``release_window`` at most.
"""

from __future__ import annotations

from dataclasses import dataclass

#: The average age of what is in the broker that a window is fitted to, in seconds; the oldest is twice as old.
GOAL = 0.2
#: Where a window begins, and the least that it ever is: what one message holds.
FIRST = 100
LEAST = 10
#: Between two changes, in seconds: what the last one did must be seen first.
PAUSE = 0.05
_GROWTH, _SHRINKAGE = 1.5, 0.8
_MOST = 100_000.0


@dataclass(slots=True)
class Window:
    """Of one queue, as one scheduler sees it."""

    size: float = FIRST
    _changed_at: float = 0.0

    def fit(self, age: float | None, slots: int, now: float) -> None:
        """A release has used up the window. ``age``: seconds that jobs have been in the broker, on average, if any are.

        It stays as large as all ``slots`` of the workers, whatever the age: long jobs wait there, and not for nothing.
        """
        if now - self._changed_at < PAUSE:
            return
        before = self.size
        if age is None or age < GOAL / 2:
            self.size *= _GROWTH
        elif age > GOAL * 3 / 2:
            self.size *= _SHRINKAGE
        self.size = min(max(self.size, slots, LEAST), _MOST)
        if self.size != before:
            self._changed_at = now
