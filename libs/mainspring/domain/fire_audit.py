"""What should have fired, computed again by other means than the code that fires: gaps, and schedules in vain."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import islice

from mainspring.domain.firing import FiringRules
from mainspring.domain.schedule import TICK, Trigger, fire_times

#: A nominal time that has no record for so long after its fire was due is missed.
PATIENCE = timedelta(seconds=60)
#: How far back each look goes.
HORIZON = timedelta(hours=25)
#: Missing nominal times that one look names.
MOST_MISSING = 1000


def window_of(
    rules: FiringRules, jitter: timedelta, *, active_since: datetime, next_nominal_at: datetime | None, now: datetime
) -> tuple[datetime, datetime]:
    """[start, end) of the nominal times that must be recorded by now; those still waited for are not among them."""
    start = max(active_since + TICK, now - HORIZON, rules.start_at or active_since)
    # A fire isn't late before its own instant has passed, and that is later by the jitter at most.
    ends = [now - PATIENCE - jitter, next_nominal_at, rules.end_at]
    return start, max(start, min(end for end in ends if end is not None))


def missing(
    trigger: Trigger, window: tuple[datetime, datetime], recorded: Sequence[tuple[datetime, datetime]]
) -> list[datetime]:
    """The nominal times of ``window`` that no record covers; ``recorded``: first and last of each."""
    start, end = window
    uncovered = (
        at for at in fire_times(trigger, start, end) if not any(first <= at <= last for first, last in recorded)
    )
    return list(islice(uncovered, MOST_MISSING))


def is_in_vain(trigger: Trigger, rules: FiringRules, since: datetime, now: datetime, jitter: timedelta) -> bool:
    """Whether it has gone without a success since ``since`` for longer than from one nominal time to the next."""
    start = max(since + TICK, rules.start_at or since)
    return len(list(fire_times(trigger, start, now - jitter - PATIENCE, 2))) == 2
