"""What the schedules will ask of the fleet: fires and slots needed over a window, and which schedules make the peaks.

A fire counts at its planned instant, jitter included, and its job runs from there for its schedule's mean duration.
The slots that a bucket needs are the seconds of running that fall in it, divided by its length: the mean number of
jobs that run at once (Little's law). What runs already when the window begins isn't in it.

    load = Load(Window(start, timedelta(minutes=1), 1440))
    for entry in entries:
        load.take(entry)
    load.buckets(), load.peaks()
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import accumulate
from typing import NamedTuple, Self

from mainspring.domain.planned_fires import MOST_FIRES, Entry, NominalTimes, Window, jobs

MOST_PEAKS = 10
MOST_NAMED = 10
#: Peaks lie as far apart: one hump is one peak.
_APART = timedelta(minutes=30)


class Bucket(NamedTuple):
    """One bucket of the window."""

    at: datetime
    fires: int
    slots_needed: float


class Share(NamedTuple):
    """A schedule's part, 0 to 1, in what a peak needs."""

    name: str
    share: float


class Peak(NamedTuple):
    """A bucket that needs more than those around it, and the schedules with the largest parts in it."""

    at: datetime
    fires: int
    slots_needed: float
    schedules: tuple[Share, ...]


class Curve:
    """Fires and running jobs over a window. A job costs the same to add, however many buckets it runs through."""

    def __init__(self, window: Window) -> None:
        self.window = window
        self.fires = [0] * window.count
        self._step = window.step.total_seconds()
        self._length = self._step * window.count
        # Seconds of running in the buckets where jobs begin and end; between, how many run more than in the one before.
        self._parts = [0.0] * (window.count + 1)
        self._rises = [0] * (window.count + 1)

    def copy(self) -> Self:
        """One to go on with, without changing this."""
        one = type(self)(self.window)
        one.fires, one._parts, one._rises = self.fires[:], self._parts[:], self._rises[:]
        return one

    def add(self, offset: float, seconds: float, sign: int = 1) -> None:
        """A fire ``offset`` seconds from the start whose job runs for ``seconds``; with ``sign`` -1 it is taken out."""
        step = self._step
        first = int(offset // step)
        self.fires[first] += sign
        end = min(offset + seconds, self._length)
        last = int(end // step)
        if first == last:
            self._parts[first] += sign * (end - offset)
            return
        self._parts[first] += sign * ((first + 1) * step - offset)
        self._rises[first + 1] += sign
        self._rises[last] -= sign
        self._parts[last] += sign * (end - last * step)

    def slots_needed(self) -> list[float]:
        """For each bucket."""
        running = accumulate(self._rises)
        # What was added and taken out leaves an error of rounding behind.
        needed = [max(round(part / self._step + full, 6), 0.0) for part, full in zip(self._parts, running, strict=True)]
        return needed[: self.window.count]

    def highest(self) -> Bucket:
        """The bucket that needs most slots; of several the one with most fires, then the first."""
        needed = self.slots_needed()
        return self.bucket(_ranked(needed, self.fires)[0], needed)

    def bucket(self, index: int, needed: Sequence[float]) -> Bucket:
        """A bucket as it is shown."""
        return Bucket(self.window.at(index), self.fires[index], needed[index])


class Load:
    """What schedules ask, taken in one by one. Bounded: past ``most`` fires it ``is_full`` and takes no more."""

    def __init__(self, window: Window, most: int = MOST_FIRES) -> None:
        self.curve = Curve(window)
        self.schedules = 0
        self.unknown_durations = 0
        self.is_full = False
        self._times = NominalTimes(window)
        self._most = most
        # Each fire, and whose it is: 12 bytes for one.
        self._offsets, self._owners = array("d"), array("I")
        self._names: list[str] = []
        self._seconds: list[float] = []
        self._fires: list[int] = []

    @property
    def window(self) -> Window:
        """What it is about."""
        return self.curve.window

    def take(self, entry: Entry) -> None:
        """Count a schedule's fires. A fire that would meet its own schedule's job running is none under ``skip``."""
        taken = len(self._offsets)
        room = self._most - taken
        if room <= 0:
            self.is_full = True
            return
        self.schedules += 1
        self.unknown_durations += entry.mean_seconds is None
        owner, seconds = len(self._names), entry.seconds
        self._names.append(entry.timetable.schedule)
        self._seconds.append(seconds)
        for count, offset in enumerate(jobs(entry, self._times, room + 1)):
            if count == room:
                self.is_full = True
                break
            self.curve.add(offset, seconds)
            self._offsets.append(offset)
            self._owners.append(owner)
        self._fires.append(len(self._offsets) - taken)

    def buckets(self) -> list[Bucket]:
        """All of them, in order."""
        needed = self.curve.slots_needed()
        return [self.curve.bucket(index, needed) for index in range(self.window.count)]

    def peaks(self, most: int = MOST_PEAKS) -> list[Peak]:
        """The buckets that need most slots, the highest first, none beside another."""
        needed = self.curve.slots_needed()
        chosen = self.highest(most)
        running = self.running_in(chosen)
        return [Peak(*self.curve.bucket(index, needed), _shares(running[index])) for index in chosen]

    def highest(self, most: int) -> list[int]:
        """The numbers of the buckets that are peaks, the highest first."""
        needed = self.curve.slots_needed()
        apart = _APART // self.window.step
        chosen: list[int] = []
        for index in _ranked(needed, self.curve.fires):
            if len(chosen) == most or not needed[index]:
                break
            if all(abs(index - other) >= apart for other in chosen):
                chosen.append(index)
        return chosen

    def fires_of(self) -> dict[str, int]:
        """How many jobs each schedule makes."""
        return dict(zip(self._names, self._fires, strict=True))

    def running_in(self, buckets: Sequence[int]) -> dict[int, dict[str, float]]:
        """For each of these buckets: the seconds that each schedule's jobs run in it."""
        step = self.window.step.total_seconds()
        wanted = sorted(buckets)
        found: dict[int, dict[str, float]] = {index: {} for index in wanted}
        # From each bucket on, where in ``wanted`` the next one is.
        following = [bisect_left(wanted, index) for index in range(self.window.count)]
        for offset, owner in zip(self._offsets, self._owners, strict=True):
            end = offset + self._seconds[owner]
            for index in wanted[following[int(offset // step)] :]:
                if end <= index * step:
                    break
                part = min(end, (index + 1) * step) - max(offset, index * step)
                name = self._names[owner]
                found[index][name] = found[index].get(name, 0.0) + part
        return found


def _ranked(needed: Sequence[float], fires: Sequence[int]) -> list[int]:
    return sorted(range(len(fires)), key=lambda index: (-needed[index], -fires[index], index))


def _shares(running: Mapping[str, float]) -> tuple[Share, ...]:
    total = sum(running.values())
    largest = sorted(running.items(), key=lambda item: (-item[1], item[0]))[:MOST_NAMED]
    return tuple(Share(name, round(seconds / total, 6)) for name, seconds in largest)
