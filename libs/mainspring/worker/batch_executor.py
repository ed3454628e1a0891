"""Running a handler that takes many jobs: one call, and an Ending for each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Executor
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from functools import partial
from typing import Any, cast
from uuid import UUID

from mainspring.batches import Batch, BatchJob, BatchTask
from mainspring.context import Connection
from mainspring.domain.errors import InvalidInput, StaleFence
from mainspring.domain.settlement import Ending
from mainspring.domain.states import Outcome
from mainspring.store import settle
from mainspring.store.pool import Database
from mainspring.worker.executor import Committed, call_handler, ending_of, result_text, to_the_end
from mainspring.worker.handler_transaction import HandlerTransaction

Order = dict[str, Any]


class HandlerBatch(Batch[Any]):
    """The batch of one call, made from the supervisor's orders."""

    def __init__(self, jobs: list[BatchJob[Any]], database: Database) -> None:
        super().__init__(jobs)
        self.handler_transaction = HandlerTransaction(database, "batch")

    def transaction(self) -> AbstractAsyncContextManager[Connection]:
        """See Batch.transaction."""
        return self.handler_transaction.block()


async def execute_batch(
    one: BatchTask[Any], orders: Sequence[Order], cancelled: Collection[int], database: Database, threads: Executor
) -> dict[int, Ending]:
    """Run the handler for these orders; how each ended, by its key. ``cancelled``: keys that were asked to stop.

    A call that is stopped ends for all its jobs: those that weren't asked to stop, and aren't answered, run again.
    """
    endings: dict[int, Ending] = {}
    jobs: dict[int, BatchJob[Any]] = {}
    for order in orders:
        try:
            jobs[order["key"]] = _job(one, order)
        except InvalidInput as error:
            endings[order["key"]] = ending_of(error)
    if not jobs:
        return endings
    batch = HandlerBatch(list(jobs.values()), database)
    raised = await _call(one, batch, threads)
    is_stopped = isinstance(raised, asyncio.CancelledError) and bool(cancelled)
    unanswered = Ending(Outcome.HANDED_BACK) if is_stopped else ending_of(raised) if raised else None
    endings |= {key: _ending(one, job, unanswered) for key, job in jobs.items()}
    if is_stopped:
        endings |= {key: Ending(Outcome.CANCELLED) for key in cancelled if endings.get(key) is unanswered}
    if batch.handler_transaction.has_begun:
        claim_ids = {order["key"]: UUID(order["claim_id"]) for order in orders}
        endings |= await _end_transaction(batch, jobs, endings, claim_ids, unanswered)
    return endings


async def _call(one: BatchTask[Any], batch: HandlerBatch, threads: Executor) -> BaseException | None:
    """What the handler raised; the executor's place for it, as in ``executor.execute``."""
    try:
        await call_handler(one, partial(cast("Callable[[Any], Any]", one.handler), batch), threads)
    except BaseException as error:  # noqa: BLE001  the executor: whatever a handler raises becomes an outcome
        return error
    return None


def _job(one: BatchTask[Any], order: Order) -> BatchJob[Any]:
    return BatchJob(
        UUID(order["id"]),
        one.payload_from(order["payload"]),
        order["attempt"],
        order["fence"],
        order["idempotency_key"],
        order["schedule"],
        datetime.fromisoformat(order["nominal_at"]) if order["nominal_at"] else None,
        order["traceparent"],
    )


def _ending(one: BatchTask[Any], job: BatchJob[Any], unanswered: Ending | None) -> Ending:
    """What the handler said of it; else what its own end means (None: it returned)."""
    if job.error is not None:
        return ending_of(job.error)
    if unanswered is not None and not job.is_answered:
        return unanswered
    try:
        return Ending(Outcome.SUCCEEDED, result=result_text(one, job.result))
    except Exception as unfit:  # noqa: BLE001  the executor: a result that isn't JSON fails its job alone
        return ending_of(unfit)


async def _end_transaction(
    batch: HandlerBatch,
    jobs: dict[int, BatchJob[Any]],
    endings: dict[int, Ending],
    claim_ids: dict[int, UUID],
    unanswered: Ending | None,
) -> dict[int, Ending]:
    """Commit what the handler wrote with the completions of those that succeeded, or undo it for all."""
    succeeded = [key for key in jobs if endings[key].outcome is Outcome.SUCCEEDED]
    if unanswered is not None:
        await batch.handler_transaction.rollback()
        return dict.fromkeys(succeeded, unanswered)
    successes = [
        settle.Success(jobs[key].job_id, jobs[key].fence, claim_ids[key], endings[key].result) for key in succeeded
    ]
    try:
        refused = await to_the_end(batch.handler_transaction.commit(successes))
    except Exception as failure:  # noqa: BLE001  the executor: nothing is committed, and each job ends so
        return dict.fromkeys(succeeded, ending_of(failure))
    if not refused:
        return {key: Committed(Outcome.SUCCEEDED, result=endings[key].result) for key in succeeded}
    return {key: _undone(jobs[key].job_id, refused.stale, refused.duplicate) for key in succeeded}


def _undone(job_id: UUID, stale: Collection[UUID], duplicate: Collection[UUID]) -> Ending:
    """Rolled back: one that can't complete ends so, a duplicate is settled as such, and the others run again."""
    if job_id in stale:
        return ending_of(StaleFence(f"job {job_id} belongs to a later attempt"))
    return Ending(Outcome.SUCCEEDED if job_id in duplicate else Outcome.HANDED_BACK)
