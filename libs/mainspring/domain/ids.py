"""Job ids: UUID version 7 (RFC 9562, section 5.7).

The first 48 bits are a millisecond timestamp, so ids made close in time lie close in an index and in
the tables that are partitioned by id. The timestamp orders storage and decides nothing.
"""

from __future__ import annotations

from uuid import UUID

_RANDOM_BITS = 74
_VERSION = 7 << 76
_VARIANT = 2 << 62


def uuid7(milliseconds: int, randomness: int) -> UUID:
    """Build an id from a Unix time in milliseconds and at least 74 random bits."""
    rand_a, rand_b = divmod(randomness & ((1 << _RANDOM_BITS) - 1), 1 << 62)
    return UUID(int=(milliseconds & ((1 << 48) - 1)) << 80 | _VERSION | rand_a << 64 | _VARIANT | rand_b)


class RisingIds:
    """Ids of one process, each above the one before: jobs that are submitted together are ordered by theirs.

    Within a millisecond, and while the clock is behind, they count up in random steps (RFC 9562, 6.2, method 2).
    """

    def __init__(self) -> None:
        self._milliseconds = -1
        self._randomness = 0

    def make(self, milliseconds: int, randomness: int) -> UUID:
        """The next id, at a Unix time or above the last."""
        if milliseconds > self._milliseconds:
            self._milliseconds = milliseconds
            # The first bit stays clear: there is room to count up.
            self._randomness = randomness >> 1 & (1 << _RANDOM_BITS - 1) - 1
        else:
            self._randomness += 1 + (randomness & (1 << 32) - 1)
        return uuid7(self._milliseconds, self._randomness)


def first_id_at(milliseconds: int) -> UUID:
    """The smallest id of a millisecond: the boundary of a partition by id."""
    return UUID(int=(milliseconds & ((1 << 48) - 1)) << 80)
