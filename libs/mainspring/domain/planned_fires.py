"""When schedules will make jobs within a window: the planned instants, jitter included, that a forecast counts."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from mainspring.domain.firing import Overlap
from mainspring.domain.schedule import CronTrigger, Trigger, fire_times, plan_jitter
from mainspring.domain.timetable import Timetable

#: What a job is taken to last whose schedule and task have no finished run.
ASSUMED_SECONDS = 1.0
#: Nothing takes no time: a share of a bucket is a share of something.
_LEAST_SECONDS = 0.001
#: Fires that one forecast looks at.
MOST_FIRES = 2_000_000
#: Nominal times of cron expressions that are kept, since many schedules share one.
_MOST_KEPT = 200_000


@dataclass(frozen=True, slots=True)
class Window:
    """``count`` buckets of ``step`` each, from ``start``."""

    start: datetime
    step: timedelta
    count: int

    @property
    def end(self) -> datetime:
        """Where the last bucket ends."""
        return self.at(self.count)

    def at(self, bucket: int) -> datetime:
        """Where a bucket begins."""
        return self.start + bucket * self.step


class Entry(NamedTuple):
    """A schedule that fires: neither paused, nor broken, nor over."""

    timetable: Timetable
    overlap: Overlap
    #: How long its jobs run; None: nobody knows.
    mean_seconds: float | None
    #: The nominal time that it waits for, None: the first of the window.
    waits_for: datetime | None = None
    #: Jobs that it may still make.
    runs_left: int | None = None

    @property
    def seconds(self) -> float:
        """How long its jobs are taken to run."""
        return ASSUMED_SECONDS if self.mean_seconds is None else max(self.mean_seconds, _LEAST_SECONDS)


class NominalTimes:
    """The nominal times of triggers around one window; those of a cron expression are walked over once."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._kept: dict[tuple[str, str], list[datetime]] = {}
        self._room = _MOST_KEPT

    def of(self, trigger: Trigger, most: int) -> Sequence[datetime]:
        """The last one before the window, whose jitter may lead into it; those in it, at most ``most``; the next one.

        Where time ends, or the trigger, there is none before or none after.
        """
        if not isinstance(trigger, CronTrigger):
            return self._walk(trigger, most)
        key = trigger.expression.text, trigger.zone.key
        times = self._kept.get(key)
        if times is None:
            times = self._walk(trigger, most)
            if len(times) < min(most, self._room):
                self._kept[key] = times
                self._room -= len(times)
        return times

    def _walk(self, trigger: Trigger, most: int) -> list[datetime]:
        before = trigger.previous_before(self._window.start)
        times = [] if before is None else [before]
        times += fire_times(trigger, self._window.start, self._window.end, most)
        following = trigger.next_after(max(times[-1], self._window.start) if times else self._window.start)
        return times if following is None else [*times, following]

    def planned(self, entry: Entry, most: int = MOST_FIRES) -> Iterator[float]:
        """The planned fires of [start, end) in seconds from the start, in order."""
        timetable, start, end = entry.timetable, self._window.start, self._window.end
        times = self.of(timetable.trigger, most)
        waits_for = entry.waits_for or start
        first = bisect_left(times, max(waits_for, timetable.rules.start_at or waits_for))
        last = bisect_left(times, min(end, timetable.rules.end_at or end))
        if entry.runs_left is not None:
            last = min(last, first + entry.runs_left)
        if first >= last:
            return
        # The jitter stays below the next nominal time of the trigger, whatever bounds the schedule has.
        following = [*times[first + 1 : last + 1], None]
        for nominal_at, next_at in zip(times[first:last], following, strict=False):
            jitter = timetable.jitter and plan_jitter(timetable.schedule, nominal_at, timetable.jitter, next_at)
            planned_at = nominal_at + jitter
            if start <= planned_at < end:
                yield (planned_at - start).total_seconds()


def jobs(entry: Entry, times: NominalTimes, most: int = MOST_FIRES) -> Iterator[float]:
    """The planned fires that make jobs, in seconds from the window's start."""
    skips, seconds = entry.overlap is Overlap.SKIP, entry.seconds
    free_at = 0.0
    for offset in times.planned(entry, most):
        if not skips or offset >= free_at:
            free_at = offset + seconds
            yield offset
