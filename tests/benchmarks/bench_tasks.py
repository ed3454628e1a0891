"""The tasks that the benchmarks run."""

from __future__ import annotations

import time

from mainspring import JobContext, task


@task("bench.noop", queue="bench")
async def noop(ctx: JobContext) -> None:
    """Nothing: what is measured is everything around it."""


@task("bench.stamp", queue="bench")
async def stamp(ctx: JobContext) -> int:
    """The instant of the handler's first line, on the clock that all processes of a machine share."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)
