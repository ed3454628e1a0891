"""The JobContext that a handler gets, made from the supervisor's order."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any
from uuid import UUID

from mainspring.context import Connection, JobContext, LastRun
from mainspring.domain.errors import MainspringError, StaleFence
from mainspring.store import runs, settle
from mainspring.store.pool import Database
from mainspring.worker.handler_transaction import HandlerTransaction


class EffectExists(MainspringError):
    """The idempotency key is complete: the handler's writes are rolled back, and the job ends as its duplicate."""


class HandlerContext(JobContext):
    """The context of one attempt."""

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
        self._transaction = HandlerTransaction(database, "ctx")

    def transaction(self) -> AbstractAsyncContextManager[Connection]:
        """See JobContext.transaction."""
        return self._transaction.block()

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
        return self._transaction.has_begun

    async def commit(self, result: str | None) -> None:
        """Commit with the completion. Raises StaleFence, EffectExists, DatabaseUnavailable."""
        refused = await self._transaction.commit(
            [settle.Success(self.job_id, self.fence, UUID(self._claim_id), result)]
        )
        if refused.stale:
            raise StaleFence(f"job {self.job_id} belongs to a later attempt than fence {self.fence}")
        if refused.duplicate:
            # Another job has applied this effect: ours must not be applied again.
            raise EffectExists(self.idempotency_key)

    async def rollback(self) -> None:
        """Undo the handler's writes; nothing when there were none."""
        await self._transaction.rollback()
