"""Lent credit: a lone job is released by its own insert, where nothing but a release would let it through."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from mainspring.broker.publisher import Publisher
from mainspring.domain.errors import InvalidInput
from mainspring.domain.job import JobRef, JobRequest
from mainspring.domain.states import State
from mainspring.runtime.lent_credit import LentCredit, Loan
from mainspring.runtime.loop import Pass
from mainspring.runtime.submit import Submitter
from mainspring.runtime.wake import Wake
from mainspring.store import jobs, queues, release
from mainspring.store.pool import Database
from mainspring.store.release import Bounds, Released
from mainspring.store.wakeups import DUE_CHANNEL, LOAN_CHANNEL, listen
from mainspring_services.scheduler.lending import JOBS, LONE, Lending
from mainspring_services.scheduler.queue_topology import QueueTopology
from mainspring_services.scheduler.release_due import ReleaseDue

from .rows import live
from .system import System
from .test_counterexamples import claim

LENDER = "mainspring_lent_test"


@asynccontextmanager
async def hearing(url: str, *channels: str) -> AsyncIterator[asyncio.Queue[tuple[str, str]]]:
    """What is said on these channels: (channel, text)."""
    said: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
    hears = {one: (lambda text, one=one: said.put_nowait((one, text))) for one in channels}
    task = asyncio.create_task(listen(url, "test", hears))
    try:
        for channel in channels:
            assert await asyncio.wait_for(said.get(), 10) == (channel, "")
        yield said
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def lone_submit(database: Database, lent: LentCredit, **fields: Any) -> Any:
    """The row of a job that an api with these loans accepted."""
    submitted = await Submitter(database, Wake(database), lent).submit(JobRequest("t", queue="q", **fields))
    async with database.connection() as connection:
        return await live(connection, submitted.id)


def lent(jobs: int = JOBS) -> LentCredit:
    credit = LentCredit()
    credit.hear(Loan("q", jobs, LENDER).as_text())
    return credit


async def test_a_lone_job_is_released_with_its_insert_and_its_lender_hears_what_to_publish(
    database: Database, database_url: str
) -> None:
    async with database.connection() as connection:
        await queues.make_queues(connection, ["q"])
    async with hearing(database_url, LENDER, DUE_CHANNEL) as said:
        row = await lone_submit(database, lent())
        channel, text = await asyncio.wait_for(said.get(), 10)
    assert (row["state"], row["fence"], row["released_at"]) == (State.ENQUEUED, 2, row["due_at"])
    assert channel == LENDER
    assert said.empty()
    batch = release.batch_from(text)
    async with database.connection() as connection:
        (stored,) = await connection.fetch("SELECT * FROM mainspring.outbox")
        answer = await claim(connection, batch.refs[0])
    assert (batch.id, batch.queue, batch.refs) == (stored["id"], "q", (JobRef(row["id"], 2),))
    assert (stored["ids"], stored["tickets"]) == ([row["id"]], [2])
    assert [one.id for one in answer.claimed] == [row["id"]]


@pytest.mark.parametrize(
    ("sql", "fields"),
    [
        ("UPDATE mainspring.queues SET paused = true", {}),
        ("UPDATE mainspring.queues SET fair_by = 'customer'", {}),
        ("UPDATE mainspring.queues SET backs_off_until = clock_timestamp() + interval '1 minute'", {}),
        ("DELETE FROM mainspring.queues", {}),
        ("INSERT INTO mainspring.limits (queue, kind, most) VALUES ('q', 'concurrency', 9)", {}),
        ("INSERT INTO mainspring.limits (name, kind, most, queues) VALUES ('l', 'concurrency', 9, '{q}')", {}),
        ("INSERT INTO mainspring.limits (name, kind, most, tasks) VALUES ('l', 'concurrency', 9, '{t}')", {}),
        ("SELECT", {"run_at": datetime.now(UTC) + timedelta(hours=1)}),
        ("SELECT", {"delay": timedelta(seconds=5)}),
    ],
)
async def test_what_a_release_has_to_judge_waits_for_one(
    database: Database, database_url: str, sql: str, fields: dict[str, Any]
) -> None:
    async with database.connection() as connection:
        await queues.make_queues(connection, ["q"])
        await connection.execute(sql)
    async with hearing(database_url, LENDER, DUE_CHANNEL) as said:
        row = await lone_submit(database, lent(), **fields)
        assert await asyncio.wait_for(said.get(), 10) == (DUE_CHANNEL, "q")
    assert (row["state"], row["fence"], row["released_at"]) == (State.SCHEDULED, 1, None)
    async with database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM mainspring.outbox") == 0


async def test_a_loan_is_for_so_many_jobs_and_for_one_queue(database: Database) -> None:
    async with database.connection() as connection:
        await queues.make_queues(connection, ["q", "other"])
    credit = lent(2)
    assert [(await lone_submit(database, credit))["state"] for _ in range(3)] == ["enqueued", "enqueued", "scheduled"]
    credit = LentCredit()
    credit.hear(Loan("other", 2, LENDER).as_text())
    assert (await lone_submit(database, credit))["state"] == "scheduled"


async def test_the_queue_of_a_task_is_found_among_all_that_are_lent(database: Database) -> None:
    async with database.connection() as connection:
        await queues.make_queues(connection, ["q", "default"])
    credit = lent()
    credit.hear(Loan("default", 1, "mainspring_lent_other").as_text())
    submitted = await Submitter(database, Wake(database), credit).submit(JobRequest("t"))
    async with database.connection() as connection:
        assert (await live(connection, submitted.id))["state"] == "enqueued"
    assert credit.lenders(None) == {"q": LENDER}


@pytest.mark.parametrize(
    "text", ["", "1", "1 2 3 q", f"1 {UUID(int=1)} 2 a queue", f"x {UUID(int=1)} 2 q", f"{1 << 63} {UUID(int=1)} 2 q"]
)
def test_what_is_no_batch_is_refused(text: str) -> None:
    with pytest.raises((ValueError, InvalidInput)):
        release.batch_from(text)


async def test_many_at_once_are_released_by_a_scheduler(database: Database) -> None:
    async with database.connection() as connection:
        await queues.make_queues(connection, ["q"])
    await Submitter(database, Wake(database), lent()).submit_many([JobRequest("t", queue="q")] * 2)
    async with database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM mainspring.live_jobs WHERE state <> 'scheduled'") == 0


async def test_a_scheduler_lends_after_a_release_that_left_nothing(database: Database, database_url: str) -> None:
    lending, other = Lending(database), Lending(database)
    async with database.connection() as connection, hearing(database_url, LOAN_CHANNEL) as said:
        await jobs.insert(connection, [JobRequest("t", queue="q")])
        await queues.adopt_queues(connection)
        lending.hear("")
        await lending.learn("q", await release.release(connection, "q", Bounds()), 1000)
        _, text = await asyncio.wait_for(said.get(), 10)
        assert Loan.from_text(text) == Loan("q", JOBS, lending.channel)
        # Whoever finds that something has to wait takes it back, once.
        other.hear(text)
        await queues.change(connection, "q", {"release_window": 2})
        await jobs.insert(connection, [JobRequest("t", queue="q")] * 2)
        limited = await release.release(connection, "q", Bounds())
        assert limited.is_limited_by_window
        await other.learn("q", limited, 1000)
        _, text = await asyncio.wait_for(said.get(), 10)
        assert Loan.from_text(text) == Loan("q")
        await other.learn("q", limited, 1000)
        assert said.empty()


@pytest.mark.parametrize(
    "released",
    [
        Released(is_locked_elsewhere=True),
        Released(count=0, credit=1000),
        Released(count=LONE + 1, credit=1000),
        Released(count=1, credit=JOBS),
        # A full pass: more may wait.
        Released(count=10, credit=1000),
    ],
)
async def test_no_loan(database: Database, database_url: str, released: Released) -> None:
    async with hearing(database_url, LOAN_CHANNEL) as said:
        lending = Lending(database)
        lending.hear("")
        await lending.learn("q", released, 10)
        # What is said next is the first that is heard.
        await lending.learn("q", Released(count=1, credit=1000), 10)
        _, text = await asyncio.wait_for(said.get(), 10)
    assert Loan.from_text(text).jobs == JOBS
    assert said.empty()


async def test_lines_are_never_lent(database: Database, database_url: str) -> None:
    async with hearing(database_url, LOAN_CHANNEL) as said:
        await Lending(database).learn("q", Released(count=1, credit=1000, has_lines=True), 1000)
        _, text = await asyncio.wait_for(said.get(), 10)
    assert Loan.from_text(text) == Loan("q")


async def test_who_does_not_hear_lends_once_at_most(database: Database, database_url: str) -> None:
    plain = Released(count=1, credit=1000)
    async with hearing(database_url, LOAN_CHANNEL) as said:
        lending = Lending(database)
        await lending.learn("never", plain, 1000)
        lending.hear("")
        await lending.learn("first", plain, 1000)
        await lending.learn("second", plain, 1000)
        _, text = await asyncio.wait_for(said.get(), 10)
        assert Loan.from_text(text).queue == "first"
        lending.hear(text)
        await lending.learn("third", plain, 1000)
        _, text = await asyncio.wait_for(said.get(), 10)
        assert Loan.from_text(text).queue == "third"


async def test_what_apis_release_puts_off_no_pass_that_another_queue_waits_for(
    database: Database, vhost_url: str
) -> None:
    publisher, topology = Publisher(vhost_url, "test"), QueueTopology(vhost_url)
    await topology.declare_all(["q", "busy"])
    async with database.connection() as connection:
        await queues.make_queues(connection, ["q", "busy"])
        await queues.change(connection, "busy", {"release_window": 1})
        await jobs.insert(connection, [JobRequest("t", queue="busy")] * 2)
    releases = ReleaseDue(database, publisher, topology, Bounds(), 10)

    async def lent_pass() -> Pass:
        row = await lone_submit(database, lent())
        async with database.connection() as connection:
            id_ = await connection.fetchval("SELECT id FROM mainspring.outbox WHERE ids = ARRAY[$1::uuid]", row["id"])
        releases.hear_released(f"{id_} {row['id']} 2 q")
        return await releases.run_once()

    try:
        first = await releases.run_once()
        assert first.done == 1
        assert first.wait is not None
        async with database.connection() as connection:
            await connection.execute("DELETE FROM mainspring.live_jobs WHERE queue = 'busy' AND state = 'enqueued'")
        # Its credit was used up, and is looked at again after that long: with the next pass, whatever brings it on.
        await asyncio.sleep(first.wait)
        assert (await lent_pass()).done == 2
    finally:
        await publisher.close()
        await topology.close()


async def test_a_wake_up_that_comes_with_what_was_handed_over_is_not_put_off(
    database: Database, vhost_url: str
) -> None:
    publisher, topology = Publisher(vhost_url, "test"), QueueTopology(vhost_url)
    await topology.declare_all(["q", "other"])
    async with database.connection() as connection:
        await queues.make_queues(connection, ["q", "other"])
    releases = ReleaseDue(database, publisher, topology, Bounds(), 10)
    try:
        await releases.run_once()
        row = await lone_submit(database, lent())
        async with database.connection() as connection:
            id_ = await connection.fetchval("SELECT id FROM mainspring.outbox")
            await jobs.insert(connection, [JobRequest("t", queue="other")])
        releases.hand_over([release.batch_from(f"{id_} {row['id']} 2 q")])
        releases.wake_up()
        assert (await releases.run_once()).done == 2
    finally:
        await publisher.close()
        await topology.close()


def fence_of_a_new_job(system: System) -> str:
    """2: its insert released it."""
    job_id = system.submit("fleet.add", {"a": 1, "b": 1})
    return system.query(f"SELECT fence FROM mainspring.live_jobs WHERE id = '{job_id}'")


def test_a_frozen_lender_costs_some_jobs_two_seconds_and_then_nobody_asks_it(system: System) -> None:
    system.worker()
    system.ready()
    system.final(system.submit("fleet.add", {"a": 1, "b": 1}))
    system.fleet.start("scheduler", beat=1).wait_ready()
    system.scheduler.freeze()
    try:
        assert fence_of_a_new_job(system) == "2"
        finished = "SELECT count(*) FROM mainspring.finished_jobs"
        system.until(lambda: system.count(finished) == 2, 15)
        for _ in range(3):
            system.final(system.submit("fleet.add", {"a": 1, "b": 1}), 15)
        late = "SELECT count(*) FROM mainspring.jobs WHERE started_at > created_at + interval '1 s'"
        assert system.count(late) == 1
    finally:
        system.scheduler.thaw()


def test_a_scheduler_that_stops_takes_back_what_it_lent(system: System) -> None:
    system.worker()
    system.ready()
    system.final(system.submit("fleet.add", {"a": 1, "b": 1}))
    system.scheduler.freeze()
    lent = fence_of_a_new_job(system)
    system.scheduler.thaw()
    system.scheduler.stop()
    assert (lent, fence_of_a_new_job(system)) == ("2", "1")
