"""What a worker holds back though it has free slots: a queue beyond its share, starts beyond a rate, all when memory is
short.

These are limits of one worker, kept in its memory alone. What must hold over the fleet is a limit by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path

from mainspring.boot_clock import boot_time
from mainspring.telemetry import metrics
from mainspring.telemetry.logs import get_logger

log = get_logger(__name__)
#: What a rate gives at once after a quiet time, in seconds of it.
BURST_SECONDS = 0.1
#: How long a look at the memory is good for, in seconds.
MEMORY_SECONDS = 0.5
_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")


class Gates:
    """``queue_slots``: slots of a queue at most. ``per_second``: starts at most; 0: any. ``min_free_mib``: 0: any."""

    def __init__(
        self,
        queue_slots: Mapping[str, int] | None = None,
        per_second: float = 0.0,
        min_free_mib: int = 0,
        free_mib: Callable[[], float] | None = None,
        clock: Callable[[], float] = boot_time,
    ) -> None:
        self._queue_slots = queue_slots or {}
        self._rate = per_second
        self._burst = max(1.0, per_second * BURST_SECONDS)
        self._tokens = self._burst
        self._min_free_mib = min_free_mib
        self._free_mib = free_mib or available_mib
        self._clock = clock
        self._refilled_at = clock()
        self._looked_at = -math.inf
        self._is_short = False

    def room_of(self, queue: str, in_slots: int) -> int:
        """How many more of a queue may start beside ``in_slots`` that run."""
        most = self._queue_slots.get(queue)
        return max(most - in_slots, 0) if most is not None else 1_000_000

    def open_for(self, count: int) -> int:
        """How many of ``count`` may start now."""
        if self._is_memory_short():
            return 0
        return min(count, int(self._refill())) if self._rate else count

    def started(self, count: int) -> None:
        """So many have started."""
        if self._rate:
            self._tokens -= count

    def opens_in(self) -> float | None:
        """The seconds until something may start; None when it may now."""
        if self._is_memory_short():
            return MEMORY_SECONDS
        if self._rate and (tokens := self._refill()) < 1:
            return (1 - tokens) / self._rate
        return None

    def _refill(self) -> float:
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._refilled_at) * self._rate)
        self._refilled_at = now
        return self._tokens

    def _is_memory_short(self) -> bool:
        if not self._min_free_mib:
            return False
        if self._clock() - self._looked_at >= MEMORY_SECONDS:
            self._looked_at = self._clock()
            free = self._free_mib()
            is_short = free < self._min_free_mib
            if is_short != self._is_short:
                said = "memory is short: nothing starts" if is_short else "there is memory again"
                log.warning(said, free_mib=round(free), min_free_mib=self._min_free_mib)
            self._is_short = is_short
            metrics.MEMORY_SHORT.set(is_short)
        return self._is_short


def available_mib() -> float:
    """The memory that this process may still take: of the machine, or of its control group if that has less (Linux)."""
    return min(_of_machine(), _of_cgroup()) / 2**20


def _of_machine() -> float:
    try:
        lines = _MEMINFO.read_text().splitlines()
    except OSError:
        return math.inf
    found = [line.split() for line in lines if line.startswith("MemAvailable:")]
    return int(found[0][1]) * 1024 if found else math.inf


def _of_cgroup() -> float:
    """Version 2. What files take in the cache counts as free: it is given up when it is needed."""
    try:
        most = (_CGROUP / "memory.max").read_text().strip()
        used = int((_CGROUP / "memory.current").read_text())
        stat = dict(line.split() for line in (_CGROUP / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return math.inf
    return math.inf if most == "max" else int(most) - used + int(stat.get("inactive_file", 0))
