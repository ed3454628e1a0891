"""The JobContext that a handler gets, with the transaction that is one atom with the completion.

The block only opens the transaction. When the handler has returned, ``commit`` writes the fenced transition,
the completion, the attempt and the result on the same connection, the fenced statement last, and commits.
An exception after the block, or a stale fence, rolls everything back.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

from mainspring.context import Connection, JobContext, LastRun
from mainspring.domain.errors import DatabaseUnavailable, MainspringError, StaleFence
from mainspring.fault_points import reach
from mainspring.store import attempts, runs, settle
from mainspring.store.pool import Database


class EffectExists(MainspringError):
    """The idempotency key is complete: the handler's writes are rolled back, and the job ends as its duplicate."""


class HandlerContext(JobContext):
    """The context of one attempt, made from the supervisor's order."""

    def __init__(self, order: dict[str, Any], database: Database) -> None:
        self.job_id = UUID(order["id"])
        self.task = order["task"]
        self.queue = order["queue"]
        self.attempt = order["attempt"]
        self.fence = order["fence"]
        self.idempotency_key = order["idempotency_key"]
        self.schedule = order["schedule"]
        self.nominal_at = datetime.fromisoformat(order["nominal_at"]) if order["nominal_at"] else None
        self.traceparent = order["traceparent"]
        self._claim_id: str = order["claim_id"]
        self._database = database
        self._resources = AsyncExitStack()
        self._connection: Any = None

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """See JobContext.transaction."""
        if self._connection is not None:
            raise RuntimeError("ctx.transaction() can be entered once in an attempt")
        self._connection = await self._resources.enter_async_context(self._database.handler_connection())
        yield self._connection
        await settle.guard_handler_transaction(self._connection)

    async def last_run(self, *, succeeded: bool = False) -> LastRun | None:
        """See JobContext.last_run."""
        schedule = self.schedule
        if schedule is None:
            return None
        return await self._database.run(
            lambda connection: runs.last_run(connection, schedule, self.job_id, succeeded=succeeded)
        )

    @property
    def has_transaction(self) -> bool:
        """True once the handler has entered its transaction."""
        return self._connection is not None

    async def commit(self, result: str | None) -> None:
        """Write the completion on the handler's own connection and commit. Raises StaleFence, DatabaseUnavailable."""
        settled = settle.Success(self.job_id, self.fence, UUID(self._claim_id), result)
        try:
            applied = await settle.succeed(self._connection, [settled])
            if self.job_id not in applied:
                raise StaleFence(f"job {self.job_id} belongs to a later attempt than fence {self.fence}")
            if applied[self.job_id]:
                # Another job has applied this effect: ours must not be applied again.
                raise EffectExists(self.idempotency_key)
            await self._database.commit(self._connection)
            reach("handler.committed")
        except DatabaseUnavailable:
            if not await self._was_committed():
                raise
        finally:
            await self._resources.aclose()

    async def rollback(self) -> None:
        """Undo the handler's writes; nothing when there were none."""
        if self._connection is not None:
            await self._resources.aclose()

    async def _was_committed(self) -> bool:
        """The connection broke around the commit: only the attempt's own row says whether it happened."""
        async with self._database.connection() as connection:
            return bool(await attempts.recorded(connection, [(self.job_id, self.fence)]))
