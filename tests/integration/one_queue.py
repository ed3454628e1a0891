"""What a scheduler, a dispatcher and a worker do with one queue, one statement at a time, without their processes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from mainspring.domain.job import JobRef, JobRequest
from mainspring.domain.limits import Kind, Limit, Strategy
from mainspring.domain.settlement import Ending, Standing, decide
from mainspring.domain.states import Outcome
from mainspring.domain.turns import Turns
from mainspring.store import admission, claims, jobs, lines, settle
from mainspring.store.claims import Claimant, ClaimedJob
from mainspring.store.pool import Conn
from mainspring.store.release import Bounds, Released

LEASE = timedelta(minutes=1)
WORKER = Claimant(uuid4(), ("t",))


def limit(strategy: Strategy = Strategy.WAIT, most: int = 1, **fields: Any) -> Limit:
    return Limit("one", Kind.CONCURRENCY, most, strategy=strategy, **{"queues": ("q",), "per": "k"} | fields)


class Fleet:
    """The statements of a scheduler, a dispatcher and a worker on queue q, one step at a time."""

    def __init__(self, connection: Conn) -> None:
        self.connection = connection
        self.turns = Turns()
        self.sent: list[JobRef] = []
        self.running: dict[UUID, ClaimedJob] = {}

    async def submit(self, *keys: str | None, **fields: Any) -> list[UUID]:
        requests = [JobRequest("t", json.dumps({"k": key} if key else {}), queue="q", **fields) for key in keys]
        return [one.id for one in await jobs.insert(self.connection, requests)]

    async def release(self) -> Released:
        while True:
            async with self.connection.transaction():
                released = await lines.serve(self.connection, "q", Bounds(), self.turns)
            self.sent += [ref for batch in released.batches for ref in batch.refs]
            if not released.has_more:
                return released

    async def start(self, refs: Sequence[JobRef] | None = None) -> list[UUID]:
        """Admit and claim what was sent; returns what has begun."""
        refs, self.sent = (self.sent, []) if refs is None else (refs, self.sent)
        if not refs:
            return []
        async with self.connection.transaction():
            answer = await admission.admit(self.connection, "q", refs)
        going = answer.admitted if answer else refs
        if not going:
            return []
        claimed = (await claims.claim(self.connection, going, uuid4(), WORKER, LEASE)).claimed
        self.running |= {one.id: one for one in claimed}
        return [one.id for one in claimed]

    async def step(self) -> list[UUID]:
        await self.release()
        return await self.start()

    async def succeed(self, job_id: UUID) -> None:
        job = self.running.pop(job_id)
        await settle.succeed(self.connection, [settle.Success(job.id, job.fence, job.claim_id, None)])

    async def fail(self, job_id: UUID, outcome: Outcome = Outcome.FAILED, delay: float = 0.0) -> JobRef:
        """End an attempt otherwise; returns the message that its delay ladder would give back."""
        job = self.running.pop(job_id)
        ending = Ending(outcome, delay=timedelta(seconds=delay))
        verdict = decide(ending, Standing(job.attempts_used, job.policy, job.hand_backs), 0.0)
        found = await settle.fail(self.connection, [settle.Failure(job.id, job.fence, job.claim_id, "t", verdict)])
        return JobRef(job_id, found[job_id])

    async def state(self, job_id: UUID) -> str:
        return str((await jobs.get(self.connection, job_id))["state"])

    async def states(self, ids: Sequence[UUID]) -> list[str]:
        return [await self.state(job_id) for job_id in ids]
