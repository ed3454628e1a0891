"""A proposed spread: the jitter that lowers the peaks of a forecast, and the highest bucket before and after.

    targets = choose_targets(load, slots)
    names, left_out = to_move(load, targets)
    spread = propose(load, targets, entries_of(names))

The same schedules get the same proposal whenever it is asked, and a schedule that has the jitter already gets none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

from mainspring.domain.forecast import Bucket, Curve, Load
from mainspring.domain.planned_fires import MOST_FIRES, Entry, NominalTimes, jobs

#: Schedules that one proposal moves: it is applied in one transaction.
MOST_PROPOSED = 1000
#: Peaks that one proposal is about.
_MOST_TARGETS = 50
#: Windows that a person would choose, in seconds. None is longer: a job of midnight stays one of the night.
_WINDOWS = (60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400)
#: Where there are slots enough, a peak is spread to this part of its height.
_LOWERED = 0.1
#: A schedule makes a peak when at least this part of its fires has a hand in it.
_LEAST_IN_TARGETS = 0.2


class Target(NamedTuple):
    """A bucket to lower to ``goal`` slots, and for how many seconds each schedule's jobs run in it."""

    needed: float
    goal: float
    running: Mapping[str, float]


class Move(NamedTuple):
    """A schedule and the jitter that it has and should have."""

    name: str
    jitter: timedelta
    proposed: timedelta


@dataclass(frozen=True, slots=True)
class Spread:
    """The moves by name, and the highest bucket of the window without and with them."""

    moves: tuple[Move, ...]
    before: Bucket
    after: Bucket


def choose_targets(load: Load, slots: int) -> list[Target]:
    """The peaks that need more than ``slots``; when there are none, those at least half as high as the highest.

    A peak that one schedule makes alone is none of them: its jobs would only move together.
    """
    needed = load.curve.slots_needed()
    indexes = load.highest(_MOST_TARGETS)
    over = [index for index in indexes if 0 < slots < needed[index]]
    chosen = over or [index for index in indexes if needed[index] * 2 >= needed[indexes[0]]]
    average = sum(needed) / len(needed)
    running = load.running_in(chosen)
    return [
        Target(needed[index], slots if over else max(average, needed[index] * _LOWERED), running[index])
        for index in chosen
        if len(running[index]) > 1
    ]


def to_move(load: Load, targets: Sequence[Target], most: int = MOST_PROPOSED) -> tuple[list[str], int]:
    """The schedules to move, and how many more make the same peaks.

    First come those with much work in the highest targets and few fires elsewhere. What fires all day stays as it is.
    """
    fires = load.fires_of()
    hits = Counter(name for target in targets for name in target.running)
    worth: dict[str, float] = {}
    for target in targets:
        for name, seconds in target.running.items():
            share = hits[name] / fires[name]
            if share >= _LEAST_IN_TARGETS:
                # Weighed by the height: what is taken from the highest peak flattens most.
                worth[name] = worth.get(name, 0.0) + seconds * target.needed * min(share, 1.0)
    names = sorted(worth, key=lambda name: (-worth[name], name))
    return names[:most], len(names[most:])


def propose(load: Load, targets: Sequence[Target], entries: Iterable[Entry]) -> Spread:
    """The spread of these schedules; without a move when it would make the load no flatter."""
    before = load.curve.highest()
    found = {entry.timetable.schedule: entry for entry in entries}
    wanted = _wanted(load, targets, found)
    times = NominalTimes(load.window)
    curve = load.curve.copy()
    moves = []
    for name, entry in sorted(found.items()):
        jitter = _fitting(times.of(entry.timetable.trigger, MOST_FIRES), wanted.get(name, 0.0))
        if load.window.step <= jitter > entry.timetable.jitter:
            moves.append(Move(name, entry.timetable.jitter, jitter))
            _move(curve, times, entry, entry._replace(timetable=replace(entry.timetable, jitter=jitter)))
    if _unevenness(curve) >= _unevenness(load.curve):
        return Spread((), before, before)
    return Spread(tuple(moves), before, curve.highest())


def _move(curve: Curve, times: NominalTimes, present: Entry, moved: Entry) -> None:
    for entry, sign in ((present, -1), (moved, 1)):
        for offset in jobs(entry, times):
            curve.add(offset, entry.seconds, sign)


def _wanted(load: Load, targets: Sequence[Target], found: Mapping[str, Entry]) -> dict[str, float]:
    """For each schedule the seconds over which the work of its peaks fits into their goals."""
    wanted: dict[str, float] = {}
    step = load.window.step.total_seconds()
    for target in targets:
        running = {name: seconds for name, seconds in target.running.items() if name in found}
        if not running:
            continue
        # Jobs that are longer than a bucket are all there at once until the first of them ends.
        longest = sum(found[name].seconds * part for name, part in running.items()) / sum(running.values())
        seconds = max(step, longest) * target.needed / target.goal
        for name in running:
            wanted[name] = max(wanted.get(name, 0.0), seconds)
    return wanted


def _fitting(times: Sequence[datetime], wanted: float) -> timedelta:
    """The first window that is long enough, but at most half the time to the next fire, which a fire stays clear of."""
    gap = min(((later - earlier) / 2 for earlier, later in pairwise(times)), default=None)
    windows = [timedelta(seconds=one) for one in _WINDOWS if gap is None or timedelta(seconds=one) <= gap]
    long_enough = (one for one in windows if one.total_seconds() >= wanted)
    return next(long_enough, windows[-1] if windows else timedelta(0))


def _unevenness(curve: Curve) -> float:
    return sum(one * one for one in curve.slots_needed())
