"""Charging customers: each one once for each month, whatever is killed in between.

The payment and the job's completion are one transaction, so there is no moment at which one exists without
the other. A gateway that times out is tried again; an unknown customer never is.
"""

import asyncio
from uuid import UUID

from mainspring import JobContext, Permanent, RetryPolicy, task


class GatewayTimeout(Exception):
    """The payment gateway didn't answer in time: trying again is right."""


@task("billing.charge", queue="billing", timeout=30, retry=RetryPolicy(max_attempts=5, base=1, factor=2, cap=10))
async def charge(ctx: JobContext, *, customer: UUID, month: str, cents: int) -> int:
    """Charge one customer for one month."""
    await ask_gateway(customer, is_first_try=ctx.attempt == 1)
    async with ctx.transaction() as connection:
        known = await connection.fetchval("SELECT true FROM demo.customers WHERE id = $1", customer)
        if not known:
            raise Permanent(f"unknown customer {customer}")
        await connection.execute(
            "INSERT INTO demo.payments (customer, month, cents) VALUES ($1, $2, $3)", customer, month, cents
        )
    return cents


async def ask_gateway(customer: UUID, *, is_first_try: bool) -> None:
    """A gateway that takes a third of a second, and times out at first for one customer in twenty."""
    await asyncio.sleep(0.3)
    if is_first_try and customer.int % 20 == 0:
        raise GatewayTimeout(f"no answer for {customer}")
