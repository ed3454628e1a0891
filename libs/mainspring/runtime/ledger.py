"""Recording runs of skipped nominal times beside what is recorded already: a backfill may have been there before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from mainspring.domain.firing import SkippedRange, skipped_between
from mainspring.domain.schedule import TICK, Trigger
from mainspring.store import fires
from mainspring.store.pool import Conn


class Passed(NamedTuple):
    """A run of nominal times of one schedule that make no job; ``trigger`` says which they are."""

    schedule: str
    trigger: Trigger
    skipped: SkippedRange


async def record_skipped(connection: Conn, passed: Sequence[Passed]) -> None:
    """Record runs of nominal times, without those that have a record; under the schedules' locks."""
    left = await without_recorded(connection, passed)
    await fires.record(connection, [fires.skipped_row(one.schedule, one.skipped) for one in left])


async def without_recorded(connection: Conn, passed: Sequence[Passed]) -> list[Passed]:
    """The runs in the pieces that no record covers."""
    runs = [(one.schedule, one.skipped.first, one.skipped.last) for one in passed]
    recorded = await fires.recorded_between(connection, runs)
    return [
        one._replace(skipped=piece)
        for one, records in zip(passed, recorded, strict=True)
        for piece in _without(one, records)
    ]


def _without(one: Passed, recorded: Sequence[tuple[datetime, datetime]]) -> Iterator[SkippedRange]:
    if not recorded:
        yield one.skipped
        return
    start = one.skipped.first
    for first, last in [*recorded, (one.skipped.last + TICK, one.skipped.last)]:
        yield from skipped_between(one.trigger, start, first, one.skipped.reason)
        start = max(start, last + TICK)
