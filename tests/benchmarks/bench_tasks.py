"""The tasks that the benchmarks run."""

from __future__ import annotations

import asyncio
import time

from mainspring import JobContext, RetryPolicy, task


@task("bench.noop", queue="bench")
async def noop(ctx: JobContext) -> None:
    """Nothing: what is measured is everything around it."""


@task("bench.for_tenant", queue="bench")
async def for_tenant(ctx: JobContext, *, tenant: str) -> None:
    """Nothing, for somebody."""


@task("bench.stamp", queue="bench")
async def stamp(ctx: JobContext) -> int:
    """The instant of the handler's first line, on the clock that all processes of a machine share."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


@task("bench.slow_at_first", queue="bench", timeout=300, retry=RetryPolicy(max_attempts=9, base=0.1, factor=1))
async def slow_at_first(ctx: JobContext) -> None:
    """Its first attempt takes long: longer than anything here lasts."""
    if ctx.attempt == 1:
        await asyncio.sleep(200)


@task("bench.nap", queue="bench", retry=RetryPolicy(max_attempts=9, base=0.1, factor=1))
async def nap(ctx: JobContext) -> None:
    """Takes long enough for many to be in the broker at a time."""
    await asyncio.sleep(0.2)
