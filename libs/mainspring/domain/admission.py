"""Which of the jobs at hand a concurrency limit lets through. Pure: the store counts, under the limit's lock."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.domain.job import JobRef


def split_by_room(refs: Sequence[JobRef], most: int, held: int) -> tuple[list[JobRef], list[JobRef]]:
    """Split ``refs`` in their order into the admitted and the blocked, when ``held`` of ``most`` slots are taken."""
    room = max(most - held, 0)
    return list(refs[:room]), list(refs[room:])


def credit(window: int, in_broker: int, enqueued: int, most: int | None, held: int) -> int:
    """How many jobs of a queue may be released now.

    ``window`` bounds what is in the broker (``in_broker`` already are). Of a queue with a concurrency limit
    (``most`` slots, ``held`` of them taken, ``enqueued`` on their way to one) no more is released than there is
    room for, so that little is blocked.
    """
    free = window - in_broker
    if most is not None:
        free = min(free, most - held - enqueued)
    return max(free, 0)
