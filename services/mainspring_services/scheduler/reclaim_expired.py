"""Expired leases are settled like any failure: the worker is lost, the attempt counts, the job goes on or dies."""

from __future__ import annotations

import random
import time

from mainspring.broker.messages import JobBatch
from mainspring.broker.publisher import Publisher
from mainspring.domain.errors import BrokerUnavailable
from mainspring.domain.job import JobRef
from mainspring.domain.settlement import AttemptError, Ending, Verdict, decide
from mainspring.domain.states import Outcome, State
from mainspring.fault_points import reach
from mainspring.runtime.clock import StepDetector
from mainspring.runtime.job_spans import traced
from mainspring.runtime.loop import Pass
from mainspring.store import leases, settle
from mainspring.store.leases import ExpiredLease
from mainspring.store.pool import Conn, Database
from mainspring.telemetry import metrics
from mainspring.telemetry.logs import get_logger
from mainspring.telemetry.tracing import Operation

log = get_logger(__name__)
MOST = 200
LOST = AttemptError("WorkerLost", "its worker stopped extending the lease")
Reclaimed = tuple[ExpiredLease, Verdict, int]


class ReclaimExpired:
    """Settles expired leases. ``beat`` is what it waits when Postgres's clock has jumped ahead: leases that a jump
    ended are extended by their workers' next heartbeat.
    """

    def __init__(self, database: Database, publisher: Publisher, beat: float) -> None:
        self._database = database
        self._publisher = publisher
        self._beat = beat
        self._steps = StepDetector()
        self._quiet_until = 0.0

    async def run_once(self) -> Pass:
        """Settle what has expired, then send the messages that this calls for."""
        now, has_expired = await self._database.run(leases.look)
        if self._steps.has_stepped(now.timestamp(), time.monotonic()):
            log.warning("Postgres's clock jumped ahead: waiting for the heartbeats", seconds=self._beat)
            self._quiet_until = time.monotonic() + self._beat
        if not has_expired or time.monotonic() < self._quiet_until:
            return Pass()
        reclaimed = await self._database.run_in_transaction(_reclaim)
        if reclaimed:
            reach("reclaim.committed")
        metrics.RECLAIMED.inc(len(reclaimed))
        for expired, verdict, fence in reclaimed:
            log.warning("lease expired", job_id=str(expired.hold.id), queue=expired.queue, state=verdict.state.value)
            async with traced(self._database, Operation.RECLAIM, expired.queue, [expired.hold.id]):
                await self._announce(expired, verdict, fence)
        return Pass(done=len(reclaimed), again=len(reclaimed) == MOST)

    async def _announce(self, expired: ExpiredLease, verdict: Verdict, fence: int) -> None:
        batch = JobBatch(expired.queue, (JobRef(expired.hold.id, fence),))
        try:
            if verdict.goes_to_ladder:
                await self._publisher.publish_delayed(batch, verdict.delay)
            elif verdict.state is State.DEAD:
                await self._publisher.publish_dead(batch)
        except BrokerUnavailable as error:
            log.warning("message not sent; its row will be found", job_id=str(expired.hold.id), error=str(error))


async def _reclaim(connection: Conn) -> list[Reclaimed]:
    expired = await leases.lock_expired(connection, MOST)
    if not expired:
        return []
    decided = [(one, _verdict(one)) for one in expired]
    failures = [settle.Failure(*one.hold, one.task, verdict) for one, verdict in decided]
    fences = await settle.fail(connection, failures)
    return [(one, verdict, fences[one.hold.id]) for one, verdict in decided if one.hold.id in fences]


def _verdict(one: ExpiredLease) -> Verdict:
    # The second time it may well be the job that ends its worker: from then on it runs alone.
    ending = Ending(Outcome.WORKER_LOST, error=LOST, run_alone=one.standing.attempts_used > 1)
    return decide(ending, one.standing, random.random())  # noqa: S311  jitter, not a secret
