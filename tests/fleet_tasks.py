"""The tasks that the fleet tests run. Each start is written to a ledger at once, outside any transaction of ours."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import time
from typing import Literal

import asyncpg
from opentelemetry import trace
from pydantic import BaseModel

from mainspring import JobContext, Permanent, RetryAfter, RetryPolicy, task
from mainspring.batches import Batch, batch_task

QUICK = RetryPolicy(max_attempts=3, base=0.2, factor=1, cap=1)
#: What handlers leave behind in their process.
KEPT: list[bytes] = []


async def note(ctx: JobContext, what: str) -> None:
    """One line in the ledger."""
    connection = await asyncpg.connect(os.environ["MAINSPRING_DATABASE_URL"])
    try:
        await connection.execute(
            "INSERT INTO ledger (job, attempt, what, pid) VALUES ($1, $2, $3, $4)",
            *(ctx.job_id, ctx.attempt, what, os.getpid()),
        )
    finally:
        await connection.close()


@task("fleet.add", queue="fleet", retry=QUICK)
async def add(ctx: JobContext, *, a: int, b: int) -> int:
    """A result."""
    return a + b


@task("fleet.effect", queue="fleet", retry=QUICK)
async def effect(ctx: JobContext, *, seconds: float = 0) -> int:
    """A write that is one atom with the completion."""
    async with ctx.transaction() as connection:
        await connection.execute("INSERT INTO effects (job, attempt) VALUES ($1, $2)", ctx.job_id, ctx.attempt)
    await asyncio.sleep(seconds)
    return ctx.attempt


@task("fleet.slow_at_first", queue="fleet", retry=QUICK)
async def slow_at_first(ctx: JobContext, *, seconds: float = 60) -> int:
    """Its first attempt takes long; later ones end at once."""
    await note(ctx, "start")
    if ctx.attempt == 1:
        await asyncio.sleep(seconds)
    async with ctx.transaction() as connection:
        await connection.execute("INSERT INTO effects (job, attempt) VALUES ($1, $2)", ctx.job_id, ctx.attempt)
    return ctx.attempt


@task("fleet.counts_on", queue="fleet", retry=QUICK)
async def counts_on(ctx: JobContext) -> int:
    """One more than its schedule's last run."""
    last = await ctx.last_run(succeeded=True)
    await asyncio.sleep(0.2)
    return last.result + 1 if last else 1


@task("fleet.cut_off", queue="fleet", retry=QUICK)
async def cut_off(ctx: JobContext) -> int:
    """Its first attempt loses its connection to Postgres, and goes on for a while before it fails."""
    async with ctx.transaction() as connection:
        if ctx.attempt == 1:
            with contextlib.suppress(asyncpg.PostgresError):
                await connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
            await asyncio.sleep(0.2)
            raise ValueError("cut off")
    return ctx.attempt


@task("fleet.nap", queue="fleet", retry=QUICK)
async def nap(ctx: JobContext, *, seconds: float) -> int:
    """Notes its start and its end."""
    await note(ctx, "start")
    await asyncio.sleep(seconds)
    await note(ctx, "end")
    return ctx.attempt


@task("fleet.nap_for", queue="fleet", retry=QUICK)
async def nap_for(ctx: JobContext, *, seconds: float, who: str | dict[str, str]) -> None:
    """Takes a while, for somebody."""
    await asyncio.sleep(seconds)


@task("fleet.fail_late", queue="fleet", retry=QUICK)
async def fail_late(ctx: JobContext, *, delay: float) -> None:
    """Fails once, and wants to be tried again after a while."""
    if ctx.attempt == 1:
        raise RetryAfter(delay)


@task("fleet.fail", queue="fleet", retry=QUICK)
async def fail(ctx: JobContext, *, times: int) -> int:
    """Fails so many times."""
    if ctx.attempt <= times:
        raise ValueError(f"attempt {ctx.attempt}")
    return ctx.attempt


@task("fleet.traced", queue="fleet", retry=QUICK)
async def traced(ctx: JobContext) -> str | None:
    """Traces a part of itself, and gives its context away."""
    with trace.get_tracer("users").start_as_current_span("charge the card"):
        return ctx.traceparent


@task("fleet.traced_in_thread", queue="fleet", retry=QUICK)
def traced_in_thread(ctx: JobContext) -> None:
    """A plain function that traces a part of itself."""
    with trace.get_tracer("users").start_as_current_span("charge the card"):
        return


@task("fleet.bad", queue="fleet")
async def bad(ctx: JobContext) -> None:
    """Can never succeed."""
    raise Permanent("no such customer")


@task("fleet.stubborn", queue="fleet", timeout=1, retry=RetryPolicy(max_attempts=1))
async def stubborn(ctx: JobContext) -> str:
    """Swallows every cancellation."""
    give_up_at = time.monotonic() + 60
    while time.monotonic() < give_up_at:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            continue
    return "too late"


@task("fleet.spin", queue="fleet", timeout=1, retry=RetryPolicy(max_attempts=1))
def spin(ctx: JobContext) -> None:
    """Never gives the core back."""
    while True:
        pass


@task("fleet.suicide", queue="fleet", retry=RetryPolicy(max_attempts=2, base=0.2, factor=1))
async def suicide(ctx: JobContext) -> None:
    """Kills its own process."""
    os.kill(os.getpid(), signal.SIGKILL)


@task("fleet.blocks_the_loop", queue="fleet", timeout=1, retry=RetryPolicy(max_attempts=1))
async def blocks_the_loop(ctx: JobContext) -> None:
    """Never gives the event loop back."""
    while True:
        pass


@task("fleet.blocks_in_a_read", queue="fleet", timeout=1, retry=RetryPolicy(max_attempts=1))
async def blocks_in_a_read(ctx: JobContext) -> None:
    """Waits for a byte that never comes, outside the event loop."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.recv(1)


@task("fleet.cleans_up_for_ever", queue="fleet", timeout=1, retry=RetryPolicy(max_attempts=1))
async def cleans_up_for_ever(ctx: JobContext) -> None:
    """Is told to stop, and takes an hour for it."""
    try:
        await asyncio.sleep(60)
    finally:
        await asyncio.sleep(3600)


@task("fleet.killer", queue="fleet", retry=RetryPolicy(max_attempts=3, base=0.2, factor=1))
async def killer(ctx: JobContext) -> None:
    """Kills whoever runs it, when its neighbours have begun."""
    await asyncio.sleep(0.5)
    os.kill(os.getpid(), signal.SIGKILL)


@task("fleet.sleeps_on_the_loop", queue="fleet", timeout=60, retry=QUICK)
async def sleeps_on_the_loop(ctx: JobContext, *, seconds: float) -> int:
    """Blocks its runner's event loop, and then has its effect."""
    await note(ctx, "start")
    time.sleep(seconds)  # noqa: ASYNC251  what must not be done is the point
    async with ctx.transaction() as connection:
        await connection.execute("INSERT INTO effects (job, attempt) VALUES ($1, $2)", ctx.job_id, ctx.attempt)
    return ctx.attempt


@task("fleet.impatient", queue="fleet", timeout=3, retry=QUICK)
async def impatient(ctx: JobContext) -> int:
    """Has little time, and needs the loop."""
    await note(ctx, "start")
    await asyncio.sleep(0.5)
    return os.getpid()


@task("fleet.pid", queue="fleet", retry=QUICK)
async def pid(ctx: JobContext, *, mib: int = 0) -> int:
    """The process that it ran in, which keeps so much memory from then on."""
    KEPT.append(b"\x01" * (mib << 20))
    return os.getpid()


@task("fleet.calls_out", queue="fleet", retry=QUICK, circuit="fleet-api")
async def calls_out(ctx: JobContext) -> None:
    """Fails while there is an outage."""
    connection = await asyncpg.connect(os.environ["MAINSPRING_DATABASE_URL"])
    try:
        if await connection.fetchval("SELECT to_regclass('outage') IS NOT NULL") and await connection.fetchval(
            "SELECT count(*) FROM outage"
        ):
            raise ConnectionError("no route")
    finally:
        await connection.close()


@task("fleet.heavy", queue="fleet", retry=QUICK, slots=3)
async def heavy(ctx: JobContext, *, seconds: float) -> None:
    """Takes three slots; notes its start and its end."""
    await note(ctx, "start")
    await asyncio.sleep(seconds)
    await note(ctx, "end")


class Item(BaseModel):
    """One job of a batch, and what is to become of it."""

    n: int
    then: Literal["return", "say", "fail", "fail_once", "permanent", "unfit", "raise", "block", "wait"] = "return"


async def handle(batch: Batch[Item]) -> None:
    """Does with each job what it asks for."""
    for job in batch:
        match job.payload.then:
            case "say":
                job.succeed({"n": job.payload.n, "of": len(batch)})
            case "fail":
                job.fail(ValueError(f"item {job.payload.n}"))
            case "fail_once" if job.attempt == 1:
                job.fail(RetryAfter(0.1))
            case "permanent":
                job.fail(Permanent("no such item"))
            case "unfit":
                job.succeed({"when": float("nan")})
            case "raise" if job.attempt == 1:
                raise OSError("the whole call failed")
            case "block" if job.attempt == 1:
                await asyncio.sleep(60)
            case "wait":
                await asyncio.sleep(1)


@batch_task("fleet.batch", queue="fleet", most=8, wait=0.3, retry=QUICK)
async def batch(batch: Batch[Item]) -> None:
    """Outside any transaction; notes how many came together."""
    connection = await asyncpg.connect(os.environ["MAINSPRING_DATABASE_URL"])
    try:
        for job in batch:
            await connection.execute(
                "INSERT INTO ledger (job, attempt, what, pid) VALUES ($1, $2, $3, $4)",
                *(job.job_id, job.attempt, f"of {len(batch)}", os.getpid()),
            )
    finally:
        await connection.close()
    await handle(batch)


@batch_task("fleet.batch_effects", queue="fleet", most=8, wait=0.3, retry=QUICK)
async def batch_effects(batch: Batch[Item]) -> None:
    """A write for each job, all one atom with their completions."""
    async with batch.transaction() as connection:
        rows = [(job.job_id, job.attempt) for job in batch]
        await connection.executemany("INSERT INTO effects (job, attempt) VALUES ($1, $2)", rows)
    await handle(batch)


@batch_task("fleet.batch_in_thread", queue="fleet", most=8, retry=QUICK)
def batch_in_thread(batch: Batch[Item]) -> None:
    """A plain function."""
    for job in batch:
        job.succeed(job.payload.n)


@task("fleet.on_gpu", queue="gpu", requires=["gpu"], retry=QUICK)
async def on_gpu(ctx: JobContext) -> int:
    """For workers with the label alone, in a queue that others don't serve."""
    return os.getppid()
