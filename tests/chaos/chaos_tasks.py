"""The tasks of a chaos run. What they do is written to a ledger of their own, which the product never reads.

A start and an end are lines of the ledger, committed by themselves on a connection of the handler's own. An effect is
written in the job's transaction, so that it exists exactly if the job succeeded.
"""

from __future__ import annotations

import asyncio
import os
import time

import asyncpg

from mainspring import JobContext, Permanent, RetryPolicy, task

#: Enough attempts for every fault of a run to hit one job.
PATIENT = RetryPolicy(max_attempts=50, base=0.2, factor=2, cap=2)


async def note(ctx: JobContext, what: str) -> None:
    """One line in the ledger, at Postgres's own time."""
    for tries_left in range(60, -1, -1):
        try:
            connection = await asyncpg.connect(os.environ["MAINSPRING_DATABASE_URL"], timeout=5)
            try:
                await connection.execute(
                    "INSERT INTO chaos.ledger (job, attempt, fence, what, pid) VALUES ($1, $2, $3, $4, $5)",
                    *(ctx.job_id, ctx.attempt, ctx.fence, what, os.getpid()),
                )
                return
            finally:
                await connection.close()
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError):
            if not tries_left:
                raise
            await asyncio.sleep(0.5)


async def write(ctx: JobContext) -> None:
    """The effect: one row in the job's own transaction."""
    async with ctx.transaction() as connection:
        await connection.execute(
            "INSERT INTO chaos.effects (job, attempt, fence) VALUES ($1, $2, $3)", ctx.job_id, ctx.attempt, ctx.fence
        )


@task("chaos.quick", queue="chaos", timeout=30, retry=PATIENT)
async def quick(ctx: JobContext) -> int:
    """Nothing but an effect."""
    await write(ctx)
    return ctx.attempt


@task("chaos.slow", queue="chaos", timeout=60, retry=PATIENT)
async def slow(ctx: JobContext, *, seconds: float) -> int:
    """Takes its time, and then has its effect."""
    await note(ctx, "start")
    await asyncio.sleep(seconds)
    await write(ctx)
    return ctx.attempt


@task("chaos.flaky", queue="chaos", timeout=30, retry=PATIENT)
async def flaky(ctx: JobContext, *, failures: int) -> int:
    """Has an effect that is rolled back, so many times, and then one that stays."""
    await write(ctx)
    if ctx.attempt <= failures:
        raise ValueError(f"attempt {ctx.attempt}")
    return ctx.attempt


@task("chaos.hopeless", queue="chaos", timeout=30, retry=PATIENT)
async def hopeless(ctx: JobContext) -> None:
    """Has an effect that is rolled back, and dies."""
    await write(ctx)
    raise Permanent("never")


@task("chaos.thread", queue="chaos", timeout=60, retry=PATIENT)
def thread(ctx: JobContext, *, seconds: float) -> int:
    """A plain function."""
    time.sleep(seconds)
    return ctx.attempt


@task("chaos.limited", queue="narrow", timeout=60, retry=PATIENT)
async def limited(ctx: JobContext, *, key: str) -> int:
    """Runs in a queue with a limit, and one at a time for each key: its start and its end are in the ledger."""
    await note(ctx, "start")
    await asyncio.sleep(0.2)
    await note(ctx, "end")
    return ctx.attempt


@task("chaos.rated", queue="chaos", timeout=60, retry=PATIENT)
async def rated(ctx: JobContext) -> int:
    """Starts so often in a second at most."""
    return ctx.attempt


@task("chaos.scheduled", queue="chaos", timeout=30, retry=PATIENT)
async def scheduled(ctx: JobContext) -> None:
    """A schedule's job."""
    await write(ctx)
