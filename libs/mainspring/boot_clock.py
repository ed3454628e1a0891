"""The clock by which a process measures its own trust: nobody sets it, and it goes on while a machine sleeps."""

from __future__ import annotations

import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boot_time() -> float:
    """Seconds since some instant in the past."""
    return time.clock_gettime(_CLOCK)
