"""Spans of what is done to many jobs at once: one for the batch, and one in the trace of each job."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from uuid import UUID

from mainspring.domain.errors import DatabaseUnavailable
from mainspring.store import traces
from mainspring.store.pool import Database
from mainspring.telemetry import tracing
from mainspring.telemetry.tracing import Operation

#: What a release or a dispatch waits for the contexts of its jobs at most.
CONTEXT_SECONDS = 1.0


@contextlib.asynccontextmanager
async def traced(
    database: Database, operation: Operation, queue: str | None, ids: Sequence[UUID], parent: str | None = None
) -> AsyncIterator[None]:
    """Show what the block does to these jobs, unless it raises; nothing when traces are off.

    The jobs' contexts are read after the block, within CONTEXT_SECONDS. Their ids may be added in the block.
    """
    if not tracing.is_on():
        yield
        return
    started_at = time.time_ns()
    with tracing.current(operation, queue, parent or tracing.current_traceparent()) as batch:
        yield
        batch.set_attribute("messaging.batch.message_count", len(ids))
        if ids:
            # Without an answer in time the batch is shown alone.
            with contextlib.suppress(DatabaseUnavailable, TimeoutError):
                async with asyncio.timeout(CONTEXT_SECONDS):
                    jobs = await database.run(lambda connection: traces.of_jobs(connection, ids))
                tracing.spread(batch, operation, queue, jobs, started_at)
