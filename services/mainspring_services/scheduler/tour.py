"""Going round many, a few at a time."""

from __future__ import annotations

from collections.abc import Collection


class Tour:
    """Chooses from a set that may change between two calls; everything that stays has its turn."""

    def __init__(self) -> None:
        self._last = ""

    def next(self, names: Collection[str], count: int) -> list[str]:
        """The next ``count`` of these names, or all when there are fewer."""
        ordered = sorted(names)
        later = [name for name in ordered if name > self._last]
        chosen = (later + ordered[: len(ordered) - len(later)])[:count]
        self._last = chosen[-1] if chosen else ""
        return chosen
