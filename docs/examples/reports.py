"""A report that a schedule asks for every few seconds: one summary for each nominal time."""

from mainspring import JobContext, task


@task("reports.summarise", queue="reports", timeout=20)
async def summarise(ctx: JobContext) -> int:
    """Write how many payments there are, under the instant that the schedule names."""
    async with ctx.transaction() as connection:
        count = await connection.fetchval("SELECT count(*) FROM demo.payments")
        await connection.execute(
            "INSERT INTO demo.summaries (nominal_at, payments) VALUES ($1, $2)", ctx.nominal_at, count
        )
    return int(count)
