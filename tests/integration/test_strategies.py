"""What a full concurrency limit does with a due job: wait, cancel older ones, cancel it; and keep their order."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from uuid import UUID

import pytest

from mainspring.domain.job import JobRef
from mainspring.domain.limits import Kind, Limit, Strategy
from mainspring.domain.retry import DEFAULT
from mainspring.domain.settlement import Ending, Standing, decide
from mainspring.domain.states import Outcome, State
from mainspring.store import jobs, limits, queues, settle
from mainspring.store.pool import Database

from .one_queue import Fleet, limit
from .rows import live


@pytest.fixture
async def fleet(database: Database):
    async with database.connection() as connection:
        await queues.make_queues(connection, ["q"])
        yield Fleet(connection)


async def test_the_newest_runs_and_the_older_are_cancelled_running_or_not(fleet: Fleet) -> None:
    await limits.save(fleet.connection, limit(Strategy.CANCEL_RUNNING))
    [first] = await fleet.submit("a")
    [other] = await fleet.submit("b")
    assert set(await fleet.step()) == {first, other}
    second, third = [(await fleet.submit("a"))[0] for _ in range(2)]
    assert await fleet.step() == []
    assert await fleet.states([first, second, third, other]) == ["running", "cancelled", "blocked", "running"]
    assert (await live(fleet.connection, first))["cancel_requested"]
    assert not (await live(fleet.connection, other))["cancel_requested"]
    [event] = [one for one in await jobs.events_of(fleet.connection, second) if one["event"] == "cancel"]
    assert json.loads(event["details"]) == {"limit": "one"}
    # Asked again, nothing more is cancelled: the slot is on its way to be free.
    await fleet.release()
    assert await fleet.state(third) == "blocked"
    await fleet.fail(first, Outcome.CANCELLED)
    assert await fleet.step() == [third]
    assert await fleet.states([first, third]) == ["cancelled", "running"]


async def test_as_many_of_the_newest_stay_as_have_slots(fleet: Fleet) -> None:
    await limits.save(fleet.connection, limit(Strategy.CANCEL_RUNNING, most=3, per=None))
    ids = await fleet.submit(*["a"] * 10)
    assert await fleet.step() == ids[-3:]
    assert await fleet.states(ids[:-3]) == ["cancelled"] * 7


async def test_a_retry_is_as_old_as_its_job(fleet: Fleet) -> None:
    await limits.save(fleet.connection, limit(Strategy.CANCEL_RUNNING))
    [first] = await fleet.submit("a")
    await fleet.step()
    again = await fleet.fail(first)
    [second] = await fleet.submit("a")
    assert await fleet.step() == [second]
    assert await fleet.start([again]) == []
    await fleet.release()
    assert await fleet.states([first, second]) == ["cancelled", "running"]


async def test_a_new_job_is_cancelled_when_it_finds_no_slot(fleet: Fleet) -> None:
    await limits.save(fleet.connection, limit(Strategy.CANCEL_NEW))
    first, second, other = await fleet.submit("a", "a", "b")
    assert set(await fleet.step()) == {first, other}
    assert await fleet.state(second) == "cancelled"
    [third] = await fleet.submit("a")
    assert await fleet.step() == []
    assert await fleet.state(third) == "cancelled"
    await fleet.succeed(first)
    [fourth] = await fleet.submit("a")
    assert await fleet.step() == [fourth]


async def test_a_job_that_has_begun_is_not_new(fleet: Fleet) -> None:
    await limits.save(fleet.connection, limit(Strategy.CANCEL_NEW))
    [first] = await fleet.submit("a")
    await fleet.step()
    again = await fleet.fail(first)
    [second] = await fleet.submit("a")
    assert await fleet.step() == [second]
    assert await fleet.start([again]) == []
    await fleet.release()
    assert await fleet.state(first) == "blocked"
    await fleet.succeed(second)
    assert await fleet.step() == [first]


async def test_what_waits_for_something_else_is_not_cancelled(fleet: Fleet) -> None:
    await limits.save(fleet.connection, limit(Strategy.CANCEL_NEW, most=5))
    await limits.save(fleet.connection, Limit("wide", Kind.CONCURRENCY, 1, queues=("q",)))
    first, second = await fleet.submit("a", "a")
    assert await fleet.step() == [first]
    assert await fleet.state(second) == "blocked"
    # The limit shrinks: what waits in a line finds it full, now that its turn would come.
    await limits.save(fleet.connection, limit(Strategy.CANCEL_NEW, most=1))
    await fleet.release()
    assert await fleet.state(second) == "cancelled"


async def test_in_order_a_retry_comes_before_those_behind_it(fleet: Fleet) -> None:
    await limits.save(fleet.connection, limit(ordered=True))
    first, second, third, other = await fleet.submit("a", "a", "a", "b")
    assert set(await fleet.step()) == {first, other}
    again = await fleet.fail(first)
    assert await fleet.step() == []
    assert await fleet.states([second, third]) == ["blocked", "blocked"]
    assert await fleet.start([again]) == [first]
    await fleet.fail(first, Outcome.HANDED_BACK)
    assert await fleet.step() == [first]
    await fleet.succeed(first)
    assert await fleet.step() == [second]


async def test_in_order_a_job_that_is_blocked_by_another_limit_keeps_its_place(fleet: Fleet) -> None:
    await limits.save(fleet.connection, limit(ordered=True))
    await limits.save(fleet.connection, Limit("wide", Kind.CONCURRENCY, 1, queues=("q",)))
    first, second = await fleet.submit("a", "a")
    await fleet.step()
    again = await fleet.fail(first)
    [other] = await fleet.submit("b")
    assert await fleet.step() == [other]
    assert await fleet.start([again]) == []
    assert await fleet.state(first) == "blocked"
    await fleet.succeed(other)
    assert await fleet.step() == [first]
    assert await fleet.state(second) == "blocked"


async def test_a_redriven_job_is_at_the_end_of_its_order(fleet: Fleet) -> None:
    await limits.save(fleet.connection, limit(ordered=True))
    [first] = await fleet.submit("a")
    await fleet.step()
    job = fleet.running.pop(first)
    dead = decide(Ending(Outcome.FAILED, is_permanent=True), Standing(1, DEFAULT), 0.0)
    await settle.fail(fleet.connection, [settle.Failure(first, job.fence, job.claim_id, "t", dead)])
    [second] = await fleet.submit("a")
    assert await fleet.step() == [second]
    await jobs.redrive(fleet.connection, first, "somebody")
    assert await fleet.step() == []
    await fleet.succeed(second)
    assert await fleet.step() == [first]


async def test_an_order_that_comes_later_holds_nobody_for_ever(fleet: Fleet) -> None:
    await limits.save(fleet.connection, limit())
    first, second = await fleet.submit("a", "a")
    await fleet.step()
    again = await fleet.fail(first)
    await fleet.step()
    assert await fleet.start([again]) == []
    assert await fleet.state(first) == "blocked"
    await limits.save(fleet.connection, limit(ordered=True))
    await fleet.succeed(second)
    assert await fleet.step() == [first]


class Model:
    """The plainest model of an order: for each key its jobs in the order of submission, each until its end."""

    def __init__(self, fleet: Fleet, seed: int) -> None:
        self.fleet = fleet
        self.chance = random.Random(seed)
        self.left = 25
        self.expected: dict[str, list[UUID]] = defaultdict(list)
        self.key_of: dict[UUID, str] = {}
        self.ladder: list[JobRef] = []

    async def submit(self) -> None:
        if self.left:
            self.left -= 1
            keys = [self.chance.choice("abc") for _ in range(self.chance.randint(1, 4))]
            for key, job_id in zip(keys, await self.fleet.submit(*keys), strict=True):
                self.expected[key].append(job_id)
                self.key_of[job_id] = key

    async def start(self) -> None:
        refs = [self.ladder.pop(0)] if self.ladder and self.chance.random() < 0.5 else None
        for job_id in await self.fleet.start(refs):
            assert job_id == self.expected[self.key_of[job_id]][0]

    async def end(self) -> None:
        if not self.fleet.running:
            return
        job_id = self.chance.choice(list(self.fleet.running))
        how = self.chance.choice(["succeed", "succeed", "succeed", "hand back", "fail"])
        if how == "succeed":
            await self.fleet.succeed(job_id)
        elif how == "hand back":
            await self.fleet.fail(job_id, Outcome.HANDED_BACK)
            return
        else:
            ref = await self.fleet.fail(job_id)
            if await self.fleet.state(job_id) != State.DEAD:
                self.ladder.append(ref)
                return
        self.expected[self.key_of[job_id]].pop(0)


@pytest.mark.parametrize("seed", range(6))
async def test_jobs_of_a_key_begin_in_order_and_never_two_at_once(fleet: Fleet, seed: int) -> None:
    await limits.save(fleet.connection, limit(ordered=True))
    await limits.save(fleet.connection, Limit("wide", Kind.CONCURRENCY, 2, queues=("q",)))
    model = Model(fleet, seed)
    steps = [model.submit, fleet.release, model.start, model.start, model.end, model.end]
    for _ in range(2000):
        await model.chance.choice(steps)()
        assert len(fleet.running) <= 2
        if not model.left and not any(model.expected.values()):
            return
    raise AssertionError(f"not at rest: {sum(map(len, model.expected.values()))} left")
