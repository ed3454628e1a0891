"""Which of the jobs at hand a concurrency limit lets through. Pure: the store counts, under the limit's lock."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.domain.job import JobRef


def split_by_room(refs: Sequence[JobRef], most: int, held: int) -> tuple[list[JobRef], list[JobRef]]:
    """Split ``refs`` in their order into the admitted and the blocked, when ``held`` of ``most`` slots are taken."""
    room = max(most - held, 0)
    return list(refs[:room]), list(refs[room:])
