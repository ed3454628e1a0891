"""Recording runs of skipped nominal times beside what is recorded already: a backfill may have been there before."""

from __future__ import annotations

from collections.abc import Iterable

from mainspring.domain.firing import SkippedRange, skipped_between
from mainspring.domain.schedule import TICK, Trigger
from mainspring.store import fires
from mainspring.store.pool import Conn


async def record_skipped(connection: Conn, schedule: str, trigger: Trigger, skipped: Iterable[SkippedRange]) -> None:
    """Record runs of nominal times of ``trigger``, without those that have a record; under the schedule's lock."""
    pieces = [await without_recorded(connection, schedule, trigger, one) for one in skipped]
    await fires.record(connection, [fires.skipped_row(schedule, one) for some in pieces for one in some])


async def without_recorded(connection: Conn, schedule: str, trigger: Trigger, one: SkippedRange) -> list[SkippedRange]:
    """``one`` in the pieces that no record covers."""
    recorded = await fires.recorded_between(connection, schedule, one.first, one.last)
    if not recorded:
        return [one]
    pieces: list[SkippedRange] = []
    start = one.first
    for first, last in [*recorded, (one.last + TICK, one.last)]:
        pieces += skipped_between(trigger, start, first, one.reason)
        start = max(start, last + TICK)
    return pieces
