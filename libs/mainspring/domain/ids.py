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


def first_id_at(milliseconds: int) -> UUID:
    """The smallest id of a millisecond: the boundary of a partition by id."""
    return UUID(int=(milliseconds & ((1 << 48) - 1)) << 80)
