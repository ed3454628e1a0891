"""Settling attempts: many in one commit, then whatever the commit made necessary, then the acknowledgement.

The order is the protocol's: committed row, published ladder or dead message, message settled. A settlement
that is refused or unanswered reads the attempt's own row before it decides anything.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from functools import lru_cache, partial

from opentelemetry import trace
from prometheus_client import Counter, Histogram

from mainspring.broker.messages import JobBatch
from mainspring.broker.publisher import Publisher
from mainspring.domain.errors import BrokerUnavailable, DatabaseUnavailable
from mainspring.domain.job import JobRef
from mainspring.domain.retry import reconnect_delay
from mainspring.domain.settlement import Ending, Verdict, decide
from mainspring.domain.states import Outcome, State
from mainspring.fault_points import reach
from mainspring.runtime.batcher import Batcher
from mainspring.store import attempts as attempt_rows
from mainspring.store import settle
from mainspring.store.pool import Database
from mainspring.telemetry import metrics
from mainspring.telemetry.logs import get_logger
from mainspring.worker import attempt_span
from mainspring.worker.attempt import Attempt
from mainspring.worker.circuits import Circuits
from mainspring.worker.job_log import JobLog

log = get_logger(__name__)
OnSettled = Callable[[Attempt], None]
OnUnsettled = Callable[[Attempt, Ending], None]


class Reporter:
    """Writes endings down, and settles each job's part of its message afterwards."""

    def __init__(self, database: Database, publisher: Publisher) -> None:
        self._database = database
        self._publisher = publisher
        self._successes: Batcher[settle.Success, bool] = Batcher("succeed", self._succeed, most=200)
        self._failures: Batcher[settle.Failure, int | None] = Batcher("fail", self._fail, most=200)
        self.circuits = Circuits(database)
        self.log = JobLog()

    def report_success(self, attempt: Attempt, ending: Ending, settled: OnSettled, unsettled: OnUnsettled) -> None:
        """The common way, without a task for each job: ``settled`` is called after the commit it shared.

        When that batch failed, or the write was refused, ``unsettled`` is called: ``report`` finds out why.
        """
        job = attempt.job
        written = self._successes.enqueue(settle.Success(job.id, job.fence, job.claim_id, ending.result))
        written.add_done_callback(partial(self._succeeded, attempt, ending, settled, unsettled))

    async def report(self, attempt: Attempt, ending: Ending, is_committed: bool) -> None:
        """Settle one attempt; tries on while the database is away, for the fence decides in the end."""
        failures = 0
        is_broken = await self.circuits.is_broken_by(attempt, ending)
        while True:
            try:
                await self._settle(attempt, ending, is_committed, is_broken)
                break
            except DatabaseUnavailable as error:
                failures += 1
                log.warning("settlement delayed", job_id=str(attempt.job.id), error=str(error))
                await asyncio.sleep(reconnect_delay(failures, random.random(), 2.0))  # noqa: S311  a delay
        attempt.delivery.settle([attempt.ref])

    def _succeeded(
        self,
        attempt: Attempt,
        ending: Ending,
        settled: OnSettled,
        unsettled: OnUnsettled,
        written: asyncio.Future[bool],
    ) -> None:
        if written.cancelled():
            return
        if written.exception() is not None or not written.result():
            unsettled(attempt, ending)
            return
        self._record(attempt, ending.outcome)
        attempt.delivery.settle([attempt.ref])
        settled(attempt)

    async def _settle(self, attempt: Attempt, ending: Ending, is_committed: bool, is_broken: bool) -> None:
        job = attempt.job
        if ending.outcome is Outcome.SUCCEEDED:
            success = settle.Success(job.id, job.fence, job.claim_id, ending.result)
            if is_committed or await self._successes.submit(success) or await self._is_recorded(attempt):
                self._record(attempt, ending.outcome)
            return
        standing = attempt.standing(is_circuit_broken=is_broken)
        verdict = decide(ending, standing, random.random())  # noqa: S311  jitter, not a secret
        fence = await self._failures.submit(settle.Failure(job.id, job.fence, job.claim_id, job.task, verdict))
        if fence is not None:
            self._record(attempt, verdict.outcome, verdict)
            await self._announce(attempt, verdict, fence)
            reach("settlement.announced")
        elif await self._is_recorded(attempt):
            self._record(attempt, verdict.outcome, verdict)

    def _record(self, attempt: Attempt, outcome: Outcome, verdict: Verdict | None = None) -> None:
        if outcome is Outcome.SUCCEEDED:
            self.circuits.succeeded(attempt)
        count, seconds = _instruments(attempt.job.task, outcome.value)
        count.inc()
        seconds.observe(attempt.seconds())
        self.log.ended(attempt, outcome, verdict)
        attempt_span.end(attempt, outcome, verdict)

    async def _announce(self, attempt: Attempt, verdict: Verdict, fence: int) -> None:
        """Send the message that the new state calls for. Without it the row is found by time, a little later."""
        batch = JobBatch(attempt.job.queue, (JobRef(attempt.job.id, fence),))
        try:
            with trace.use_span(attempt.span):
                if verdict.goes_to_ladder:
                    await self._publisher.publish_delayed(batch, verdict.delay)
                elif verdict.state is State.DEAD:
                    await self._publisher.publish_dead(batch)
        except BrokerUnavailable as error:
            log.warning("message not sent; its row will be found", job_id=str(attempt.job.id), error=str(error))

    async def _is_recorded(self, attempt: Attempt) -> bool:
        """A refused write: was it ours already, its answer lost? Otherwise the job belongs to a later attempt."""
        async with self._database.connection() as connection:
            if await attempt_rows.recorded(connection, [(attempt.job.id, attempt.job.fence)]):
                return True
        metrics.WRITES_REFUSED.inc()
        attempt_span.refuse(attempt)
        log.warning("settlement refused: the job belongs to a later attempt", job_id=str(attempt.job.id))
        return False

    async def _succeed(self, batch: Sequence[settle.Success]) -> list[bool]:
        applied = await self._database.run(lambda connection: settle.succeed(connection, batch))
        reach("settlement.committed")
        return [success.id in applied for success in batch]

    async def _fail(self, batch: Sequence[settle.Failure]) -> list[int | None]:
        fences = await self._database.run(lambda connection: settle.fail(connection, batch))
        reach("settlement.committed")
        return [fences.get(failure.id) for failure in batch]


@lru_cache(maxsize=1024)
def _instruments(task: str, outcome: str) -> tuple[Counter, Histogram]:
    return metrics.ATTEMPTS.labels(task, outcome), metrics.ATTEMPT_SECONDS.labels(task)
