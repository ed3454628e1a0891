"""Settling attempts: many in one commit, then whatever the commit made necessary, then the acknowledgement.

The order is the protocol's: committed row, published ladder or dead message, message settled. A settlement
that is refused or unanswered reads the attempt's own row before it decides anything.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

from mainspring.broker.messages import JobBatch
from mainspring.broker.publisher import Publisher
from mainspring.domain.errors import BrokerUnavailable, DatabaseUnavailable
from mainspring.domain.job import JobRef
from mainspring.domain.retry import reconnect_delay
from mainspring.domain.settlement import Ending, Verdict, decide
from mainspring.domain.states import Outcome, State
from mainspring.runtime.batcher import Batcher
from mainspring.store import attempts as attempt_rows
from mainspring.store import settle
from mainspring.store.pool import Database
from mainspring.telemetry import metrics
from mainspring.telemetry.logs import get_logger
from mainspring.worker.attempt import Attempt
from mainspring.worker.job_log import log_ended

log = get_logger(__name__)
Settled = tuple[Attempt, Verdict]


class Reporter:
    """Writes endings down. ``report`` returns when the job's part of its message is settled."""

    def __init__(self, database: Database, publisher: Publisher) -> None:
        self._database = database
        self._publisher = publisher
        self._successes: Batcher[settle.Success, bool] = Batcher("succeed", self._succeed, most=200)
        self._failures: Batcher[settle.Failure, int | None] = Batcher("fail", self._fail, most=200)

    async def report(self, attempt: Attempt, ending: Ending, is_committed: bool) -> None:
        """Settle one attempt; tries on while the database is away, for the fence decides in the end."""
        failures = 0
        while True:
            try:
                await self._settle(attempt, ending, is_committed)
                break
            except DatabaseUnavailable as error:
                failures += 1
                log.warning("settlement delayed", job_id=str(attempt.job.id), error=str(error))
                await asyncio.sleep(reconnect_delay(failures, random.random(), 2.0))  # noqa: S311  a delay
        await attempt.delivery.settle([attempt.ref])

    async def _settle(self, attempt: Attempt, ending: Ending, is_committed: bool) -> None:
        job = attempt.job
        if ending.outcome is Outcome.SUCCEEDED:
            success = settle.Success(job.id, job.fence, job.claim_id, ending.result)
            applied = is_committed or await self._successes.submit(success)
            await self._conclude(attempt, ending.outcome, applied)
            return
        verdict = decide(ending, attempt.standing(), random.random())  # noqa: S311  jitter, not a secret
        fence = await self._failures.submit(settle.Failure(job.id, job.fence, job.claim_id, job.task, verdict))
        await self._conclude(attempt, verdict.outcome, fence is not None, verdict)
        if fence is not None:
            await self._announce(attempt, verdict, fence)

    async def _conclude(
        self, attempt: Attempt, outcome: Outcome, applied: bool, verdict: Verdict | None = None
    ) -> None:
        if not applied and not await self._is_recorded(attempt):
            metrics.WRITES_REFUSED.inc()
            log.warning("settlement refused: the job belongs to a later attempt", job_id=str(attempt.job.id))
            return
        metrics.ATTEMPTS.labels(attempt.job.task, outcome.value).inc()
        metrics.ATTEMPT_SECONDS.labels(attempt.job.task).observe(attempt.seconds())
        more = {"state": verdict.state.value, "delay": verdict.delay.total_seconds()} if verdict else {}
        log_ended([(attempt, outcome.value, more)])

    async def _announce(self, attempt: Attempt, verdict: Verdict, fence: int) -> None:
        """Send the message that the new state calls for. Without it the row is found by time, a little later."""
        batch = JobBatch(attempt.job.queue, (JobRef(attempt.job.id, fence),))
        try:
            if verdict.goes_to_ladder:
                await self._publisher.publish_delayed(batch, verdict.delay)
            elif verdict.state is State.DEAD:
                await self._publisher.publish_dead(batch)
        except BrokerUnavailable as error:
            log.warning("message not sent; its row will be found", job_id=str(attempt.job.id), error=str(error))

    async def _is_recorded(self, attempt: Attempt) -> bool:
        async with self._database.connection() as connection:
            return bool(await attempt_rows.recorded(connection, [(attempt.job.id, attempt.job.fence)]))

    async def _succeed(self, batch: Sequence[settle.Success]) -> list[bool]:
        applied = await self._database.run(lambda connection: settle.succeed(connection, batch))
        return [success.id in applied for success in batch]

    async def _fail(self, batch: Sequence[settle.Failure]) -> list[int | None]:
        fences = await self._database.run(lambda connection: settle.fail(connection, batch))
        return [fences.get(failure.id) for failure in batch]
