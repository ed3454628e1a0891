"""What the pages' snippets speak of: the tasks that they run, submit and test."""

from __future__ import annotations

from uuid import UUID

from mainspring import JobContext, RetryPolicy, task

ONCE = RetryPolicy(max_attempts=3, base=0.1, factor=1)


@task("billing.charge", queue="billing", retry=ONCE)
async def charge(ctx: JobContext, *, customer: UUID, month: str, cents: int) -> int:
    """Fails at first, as the page says."""
    async with ctx.transaction() as connection:
        await connection.execute("INSERT INTO payments (customer, cents) VALUES ($1, $2)", customer, cents)
    if ctx.attempt == 1:
        raise ConnectionError("the gateway doesn't answer")
    return cents


@task("billing.charge_safely", queue="billing", retry=ONCE)
async def charge_safely(ctx: JobContext, *, customer: UUID, month: str, cents: int) -> int:
    """Never fails by itself."""
    async with ctx.transaction() as connection:
        await connection.execute("INSERT INTO payments (customer, cents) VALUES ($1, $2)", customer, cents)
    return cents


@task("orders.ship")
async def ship(ctx: JobContext, *, order: int) -> None:
    """Ships."""


@task("reports.summarise", queue="reports")
async def summarise(ctx: JobContext) -> None:
    """Counts."""


@task("hello", queue="hello")
async def hello(ctx: JobContext, *, name: str) -> str:
    """Greets."""
    return f"Hello, {name}!"


@task("hello.greet", queue="hello")
async def greet(ctx: JobContext, *, name: str) -> str:
    """Greets too."""
    return f"Hello {name}"
