"""Handlers for the crash kit: one that is safe, and the usual ways not to be."""

from __future__ import annotations

import os

import asyncpg
import httpx

from mainspring import JobContext, task


@task("crash.safe")
async def safe(ctx: JobContext, *, cents: int) -> None:
    """All of it is one transaction with the completion."""
    async with ctx.transaction() as connection:
        await connection.execute("INSERT INTO payments (cents) VALUES ($1)", cents)
        await connection.execute("UPDATE books SET cents = cents + $1", cents)


@task("crash.careless")
async def careless(ctx: JobContext, *, cents: int) -> None:
    """Each statement commits by itself."""
    connection = await asyncpg.connect(os.environ["MAINSPRING_DATABASE_URL"])
    await connection.execute("INSERT INTO payments (cents) VALUES ($1)", cents)
    await connection.execute("INSERT INTO receipts (job) VALUES ($1)", str(ctx.job_id))
    await connection.close()


@task("crash.adds")
async def adds(ctx: JobContext, *, cents: int) -> None:
    """Changes a row, and commits that by itself."""
    print("what a handler prints is its own")
    connection = await asyncpg.connect(os.environ["MAINSPRING_DATABASE_URL"])
    await connection.execute("UPDATE books SET cents = cents + $1", cents)
    await connection.close()


@task("crash.hasty")
async def hasty(ctx: JobContext, *, cents: int) -> None:
    """Says that it is done before it is."""
    connection = await asyncpg.connect(os.environ["MAINSPRING_DATABASE_URL"])
    is_first = await connection.fetchval(
        "INSERT INTO receipts (job) VALUES ($1) ON CONFLICT DO NOTHING RETURNING true", ctx.idempotency_key
    )
    if is_first:
        await connection.execute("INSERT INTO payments (cents) VALUES ($1)", cents)
    await connection.close()


@task("crash.calls")
async def calls(ctx: JobContext, *, url: str, has_key: bool) -> None:
    """Asks another system to do it, with or without a key."""
    async with httpx.AsyncClient() as http:
        await http.post(url, headers={"Idempotency-Key": ctx.idempotency_key} if has_key else {})


@task("crash.plain")
def plain(ctx: JobContext) -> None:
    """Has no awaits."""


@task("crash.broken")
async def broken(ctx: JobContext) -> None:
    """Never works."""
    raise ValueError("never")
