"""The strategies of full limits against the plainest model of them, whatever happens to the jobs."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

import pytest

from mainspring.domain.job import JobRef
from mainspring.domain.limits import Strategy
from mainspring.domain.states import Outcome
from mainspring.store import jobs, limits, queues
from mainspring.store.pool import Database

from .one_queue import Fleet, limit

#: What the model calls a job's state, and what its row says then.
ROWS = {
    "due": {("scheduled", False), ("blocked", False)},
    "sent": {("enqueued", False), ("admitted", False)},
    "running": {("running", False)},
    "stopping": {("running", True)},
    "away": {("retrying", False)},
    "succeeded": {("succeeded", False), ("succeeded", True)},
    "cancelled": {("cancelled", False), ("cancelled", True)},
    "dead": {("dead", False)},
}
HOLDS_A_SLOT = {"sent", "running", "stopping"}
ENDED = {"succeeded", "cancelled", "dead"}


@dataclass
class Job:
    id: UUID
    key: str
    #: The order in which they were first due.
    age: int
    state: str = "due"
    has_begun: bool = False


class Model:
    """For each key its jobs; a release decides about those that are due, and nothing else does."""

    def __init__(self, fleet: Fleet, strategy: Strategy, most: int, seed: int) -> None:
        self.fleet = fleet
        self.strategy = strategy
        self.most = most
        self.chance = random.Random(seed)
        self.jobs: dict[UUID, Job] = {}
        self.ladder: list[JobRef] = []
        self.left = 80

    def of(self, key: str, *states: str) -> list[Job]:
        return [job for job in self.jobs.values() if job.key == key and job.state in states]

    def room(self, key: str) -> int:
        return self.most - len(self.of(key, *HOLDS_A_SLOT))

    async def submit(self) -> None:
        keys = [self.chance.choice("ab") for _ in range(self.chance.randint(1, 3))]
        if self.left > 0:
            self.left -= len(keys)
            for key, job_id in zip(keys, await self.fleet.submit(*keys), strict=True):
                self.jobs[job_id] = Job(job_id, key, len(self.jobs))

    async def release(self) -> None:
        for key in "ab":
            if self.strategy is Strategy.CANCEL_RUNNING:
                self._displace(key)
        before = {job.id for job in self.jobs.values() if job.state == "due"}
        await self.fleet.release()
        sent = {ref.id for ref in self.fleet.sent} & before
        for key in "ab":
            due = self.of(key, "due")
            going = [job for job in due if job.id in sent]
            assert len(going) == min(self.room(key), len(due))
            for job in going:
                job.state = "sent"
            if self.strategy is Strategy.CANCEL_NEW:
                for job in due:
                    if job.id not in sent and not job.has_begun:
                        job.state = "cancelled"

    def _displace(self, key: str) -> None:
        """Only the newest stay, when more are due than have room."""
        if len(self.of(key, "due")) > self.room(key):
            rivals = sorted(self.of(key, "due", "sent", "running"), key=lambda job: -job.age)
            for job in rivals[self.most :]:
                job.state = "stopping" if job.state == "running" else "cancelled"

    async def start(self) -> None:
        self._began(await self.fleet.start())

    async def come_back(self) -> None:
        """A retry's delay is over: it goes on if there is room, and is due like the others if not."""
        if not self.ladder:
            return
        ref = self.ladder.pop(self.chance.randrange(len(self.ladder)))
        job = self.jobs[ref.id]
        has_room = self.room(job.key) > 0
        began = await self.fleet.start([ref])
        assert began == ([job.id] if has_room else [])
        job.state = "due"
        if has_room:
            job.state = "sent"
            self._began(began)

    def _began(self, ids: Iterable[UUID]) -> None:
        began = set(ids)
        assert {job.id for job in self.jobs.values() if job.state == "sent" and job.id in began} == began
        for job_id in began:
            self.jobs[job_id].state, self.jobs[job_id].has_begun = "running", True

    async def cancel(self) -> None:
        """Somebody wants a job no more."""
        live = [job for job in self.jobs.values() if job.state not in ENDED]
        if live:
            job = self.chance.choice(live)
            await jobs.cancel(self.fleet.connection, job.id, "somebody")
            job.state = "stopping" if job.state in {"running", "stopping"} else "cancelled"
            self.ladder = [ref for ref in self.ladder if ref.id != job.id]

    async def end(self) -> None:
        running = sorted(self.fleet.running, key=lambda job_id: self.jobs[job_id].age)
        if not running:
            return
        job = self.jobs[self.chance.choice(running)]
        how = self.chance.choice(["succeed", "stop" if job.state == "stopping" else "fail", "hand back"])
        if how == "succeed" or (how == "hand back" and job.state == "stopping"):
            await self.fleet.succeed(job.id)
            job.state = "succeeded"
        elif how == "stop":
            await self.fleet.fail(job.id, Outcome.CANCELLED)
            job.state = "cancelled"
        elif how == "hand back":
            await self.fleet.fail(job.id, Outcome.HANDED_BACK)
            job.state = "due"
        else:
            ref = await self.fleet.fail(job.id)
            job.state = "dead" if await self.fleet.state(job.id) == "dead" else "away"
            self.ladder += [ref] if job.state == "away" else []

    async def check(self) -> None:
        rows = await self.fleet.connection.fetch(
            "SELECT id, state, cancel_requested FROM mainspring.live_jobs"
            " UNION ALL SELECT id, state, false FROM mainspring.finished_jobs"
        )
        found = {row["id"]: (row["state"], row["cancel_requested"]) for row in rows}
        assert found.keys() == self.jobs.keys()
        for job in self.jobs.values():
            assert found[job.id] in ROWS[job.state], job
        for key in "ab":
            assert len(self.of(key, *HOLDS_A_SLOT)) <= self.most

    @property
    def is_over(self) -> bool:
        return self.left <= 0 and all(job.state in ENDED for job in self.jobs.values())


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("strategy", [Strategy.WAIT, Strategy.CANCEL_RUNNING, Strategy.CANCEL_NEW])
async def test_whatever_happens_it_is_as_in_the_plainest_model(
    database: Database, strategy: Strategy, seed: int
) -> None:
    async with database.connection() as connection:
        await queues.make_queues(connection, ["q"])
        most = 1 + seed % 3
        await limits.save(connection, limit(strategy, most))
        model = Model(Fleet(connection), strategy, most, seed)
        steps = [
            model.submit,
            model.release,
            model.release,
            model.start,
            model.come_back,
            model.cancel,
            model.end,
            model.end,
        ]
        for _ in range(1000):
            await model.chance.choice(steps)()
            await model.check()
            if model.is_over:
                return
    raise AssertionError("not at rest")
