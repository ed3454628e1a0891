"""Tasks of a chaos run that the older release can't run: in batches, and behind a circuit."""

from __future__ import annotations

import time

from chaos_tasks import PATIENT, write
from pydantic import BaseModel

from mainspring import JobContext, task
from mainspring.batches import Batch, batch_task

#: What `chaos.shaky` depends on is out for so many seconds of each so many.
OUTAGE, EACH = 3.0, 12.0


class Batched(BaseModel):
    """How often a job of a batch fails, on its own."""

    failures: int = 0


@batch_task("chaos.batched", queue="chaos", most=20, wait=0.2, timeout=30, retry=PATIENT)
async def batched(batch: Batch[Batched]) -> None:
    """The effects of those that succeed are one transaction; the others fail."""
    going = [job for job in batch if job.attempt > job.payload.failures]
    for job in batch:
        if job not in going:
            job.fail(ValueError(f"attempt {job.attempt}"))
    if going:
        async with batch.transaction() as connection:
            await connection.executemany(
                "INSERT INTO chaos.effects (job, attempt, fence) VALUES ($1, $2, $3)",
                [(job.job_id, job.attempt, job.fence) for job in going],
            )


@task("chaos.shaky", queue="chaos", timeout=30, retry=PATIENT, circuit="chaos-service")
async def shaky(ctx: JobContext) -> int:
    """Depends on something that is out again and again; its effect is rolled back then."""
    await write(ctx)
    if time.time() % EACH < OUTAGE:
        raise ConnectionError("the service is out")
    return ctx.attempt
