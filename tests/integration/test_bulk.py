"""Bulk operations on real rows: each job once, in the history, at the rate, and no further than a canary allows."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from mainspring.domain.bulk import Action, BulkFilter, BulkOperation, BulkRequest, Canary
from mainspring.domain.errors import Conflict, NotFound
from mainspring.domain.job import JobRef
from mainspring.domain.retry import DEFAULT
from mainspring.domain.settlement import Ending, Standing, decide
from mainspring.domain.states import WAITING, Outcome, State
from mainspring.runtime import bulk
from mainspring.store import bulk as stored
from mainspring.store import claims, jobs, settle
from mainspring.store.claims import Claimant, ClaimedJob
from mainspring.store.pool import Conn, Database
from mainspring_services.scheduler.bulk_due import BulkDue

from .rows import live, put_job

WORKER = Claimant(uuid4(), ("t",))


async def start(database: Database, action: Action, asked: BulkFilter | None = None, **fields: Any) -> BulkOperation:
    fields = {"is_for_all": asked is None} | fields
    request = BulkRequest(action, asked or BulkFilter(), **fields)
    return await database.run_in_transaction(lambda connection: bulk.start(connection, request, "anna"))


async def run(database: Database, one: BulkOperation) -> BulkOperation:
    """The operation once a scheduler has nothing to do for it now."""
    loop = BulkDue(database, lambda: None)
    while (await loop.run_once()).done:
        pass
    found = await database.run(lambda connection: stored.get(connection, one.id))
    assert found is not None
    return found


async def put_dead(connection: Conn, count: int, **columns: Any) -> list[UUID]:
    ids = [await put_job(connection, State.DEAD, **columns) for _ in range(count)]
    await connection.execute(
        "INSERT INTO mainspring.dead_letters (id, kind, job_id, queue, task, reason, outcome, fingerprint, error)"
        " SELECT id, 'job', id, queue, task, 'exhausted', 'failed', 'ValueError:t', NULL"
        " FROM mainspring.live_jobs WHERE id = ANY ($1)",
        ids,
    )
    return ids


async def states(connection: Conn, ids: Sequence[UUID]) -> list[str]:
    return [str((await jobs.get(connection, job_id))["state"]) for job_id in ids]


async def begin(connection: Conn, job_id: UUID) -> ClaimedJob:
    await connection.execute(
        "UPDATE mainspring.live_jobs SET state = 'enqueued', fence = fence + 1, released_at = clock_timestamp()"
        " WHERE id = $1",
        job_id,
    )
    ref = JobRef(job_id, (await live(connection, job_id))["fence"])
    return (await claims.claim(connection, [ref], uuid4(), WORKER, timedelta(minutes=1))).claimed[0]


async def fail(connection: Conn, job: ClaimedJob, outcome: Outcome = Outcome.FAILED) -> None:
    verdict = decide(Ending(outcome), Standing(1, DEFAULT), 0.0)
    await settle.fail(connection, [settle.Failure(job.id, job.fence, job.claim_id, "t", verdict)])


async def succeed(connection: Conn, job: ClaimedJob) -> None:
    await settle.succeed(connection, [settle.Success(job.id, job.fence, job.claim_id, None)])


async def test_a_cancel_ends_what_waits_asks_what_runs_and_leaves_others(database: Database) -> None:
    async with database.connection() as connection:
        mine = {state: await put_job(connection, state, queue="mine") for state in State}
        other = await put_job(connection, State.SCHEDULED, queue="other")
        one = await start(database, Action.CANCEL, BulkFilter(queue="mine"))
        assert one.progress.matched == 6
        ended = await run(database, one)
        assert (ended.state, ended.progress.taken, ended.missed) == ("finished", 6, 0)
        found = dict(zip(mine, await states(connection, list(mine.values())), strict=True))
        assert found == {state: state.value for state in State} | dict.fromkeys(WAITING, "cancelled")
        assert (await live(connection, mine[State.RUNNING]))["cancel_requested"]
        assert await states(connection, [other]) == ["scheduled"]
        [event] = await jobs.events_of(connection, mine[State.RETRYING])
        assert (event["event"], event["author"], json.loads(event["details"])) == (
            "cancel",
            "anna",
            {"bulk": str(one.id)},
        )


async def test_more_than_one_part_and_two_schedulers_take_each_job_once(database: Database) -> None:
    async with database.connection() as connection:
        for _ in range(1200):
            await put_job(connection, State.SCHEDULED)
        one = await start(database, Action.EDIT, priority=1)
        loops = [BulkDue(database, lambda: None) for _ in range(2)]
        while one.state == "running":
            await asyncio.gather(*(loop.run_once() for loop in loops))
            one = await run(database, one)
        assert (one.progress.matched, one.progress.taken, one.missed) == (1200, 1200, 0)
        rows = await connection.fetch("SELECT fence, priority FROM mainspring.live_jobs")
        assert Counter(map(tuple, rows)) == {(8, 1): 1200}


async def test_a_stop_in_the_middle_of_a_part_repeats_and_loses_nothing(database: Database) -> None:
    async with database.connection() as connection:
        for _ in range(700):
            await put_job(connection, State.RETRYING)
        one = await start(database, Action.RETRY)

        async def die(connection: Conn) -> None:
            await bulk.go_on(connection, stored.NONE)
            raise asyncpg.PostgresError("killed before its commit")

        with pytest.raises(asyncpg.PostgresError, match="killed"):
            await database.run_in_transaction(die)
        assert await connection.fetchval("SELECT count(*) FROM mainspring.live_jobs WHERE state = 'retrying'") == 700
        ended = await run(database, one)
        assert (ended.state, ended.progress.taken) == ("finished", 700)
        assert await connection.fetchval("SELECT count(*) FROM mainspring.events WHERE event = 'edit'") == 700


async def test_what_comes_later_is_left_alone_and_what_has_ended_is_missed(database: Database) -> None:
    async with database.connection() as connection:
        first, second = [await put_job(connection, State.SCHEDULED, id=jobs.new_id()) for _ in range(2)]
        await asyncio.sleep(0.002)  # a job's id has its time to the millisecond
        one = await start(database, Action.CANCEL)
        later = await put_job(connection, State.SCHEDULED)
        await jobs.cancel(connection, first, "somebody")
        ended = await run(database, one)
        assert (ended.state, ended.progress.matched, ended.progress.taken) == ("finished", 2, 1)
        assert await states(connection, [first, second, later]) == ["cancelled", "cancelled", "scheduled"]


@pytest.mark.parametrize(
    ("asked", "count"),
    [
        (BulkFilter(task="a"), 2),
        (BulkFilter(tag="red"), 1),
        (BulkFilter(schedule="s"), 1),
        (BulkFilter(states=(State.BLOCKED, State.RUNNING)), 2),
        (BulkFilter(task="a", queue="y"), 1),
        (BulkFilter(until=datetime.fromisoformat("2020-01-01T00:00:00Z")), 0),
        (BulkFilter(since=datetime.fromisoformat("2020-01-01T00:00:00Z")), 5),
    ],
)
async def test_each_filter_counts_what_it_takes(database: Database, asked: BulkFilter, count: int) -> None:
    async with database.connection() as connection:
        await put_job(connection, State.SCHEDULED, task="a", queue="x")
        await put_job(connection, State.SCHEDULED, task="a", queue="y")
        tagged = await put_job(connection, State.BLOCKED)
        await put_job(connection, State.RUNNING)
        await put_job(connection, State.RETRYING, schedule="s")
        await put_job(connection, State.DEAD)
        await connection.execute("UPDATE mainspring.job_details SET tags = '{red, blue}' WHERE id = $1", tagged)
        await asyncio.sleep(0.002)  # a job's id has its time to the millisecond
        found = await bulk.count(connection, BulkRequest(Action.CANCEL, asked))
        one = await start(database, Action.CANCEL, asked)
        ended = await run(database, one)
        assert found.total == sum(found.by_state.values()) == one.progress.matched == ended.progress.taken == count


async def test_a_rate_is_kept_by_all_schedulers_together(database: Database) -> None:
    async with database.connection() as connection:
        for _ in range(30):
            await put_job(connection, State.SCHEDULED)
        await asyncio.sleep(0.002)  # a job's id has its time to the millisecond
        one = await start(database, Action.CANCEL, per_second=40.0)
        loops = [BulkDue(database, lambda: None) for _ in range(3)]
        clock = asyncio.get_running_loop().time
        began = clock()
        while one.state == "running":
            passes = [await loop.run_once() for loop in loops]
            await asyncio.sleep(min(each.wait if each.wait is not None else 1.0 for each in passes))
            one = await stored.get(connection, one.id) or one
            assert one.progress.taken <= 10 + 40.0 * (clock() - began)
        assert one.progress.taken == 30
        assert clock() - began >= 0.5


async def test_a_redrive_by_filter_is_in_the_history(database: Database) -> None:
    async with database.connection() as connection:
        dead = await put_dead(connection, 3)
        [other] = await put_dead(connection, 1, task="other")
        one = await run(
            database, await start(database, Action.REDRIVE, BulkFilter(fingerprint="ValueError:t", task="t"))
        )
        assert (one.state, one.progress.taken) == ("finished", 3)
        assert await states(connection, [*dead, other]) == ["scheduled"] * 3 + ["dead"]
        [event] = await jobs.events_of(connection, dead[0])
        assert (event["event"], event["author"]) == ("redrive", "anna")
        assert json.loads(event["details"]) == {"bulk": str(one.id)}


async def test_a_discard_says_why_and_takes_messages_too(database: Database) -> None:
    async with database.connection() as connection:
        [dead] = await put_dead(connection, 1)
        await connection.execute(
            "INSERT INTO mainspring.dead_letters (id, kind, reason, fingerprint, body)"
            " VALUES ($1, 'message', 'unreadable', 'message:unreadable', 'x')",
            uuid4(),
        )
        one = await run(database, await start(database, Action.DISCARD, note="they are gone"))
        assert (one.state, one.progress.taken) == ("finished", 2)
        assert await connection.fetchval("SELECT count(*) FROM mainspring.dead_letters") == 0
        [event] = await jobs.events_of(connection, dead)
        assert json.loads(event["details"])["why"] == "they are gone"
        assert (await jobs.get(connection, dead))["reason"] == "discarded"


async def test_what_dies_again_is_not_redriven_again(database: Database) -> None:
    async with database.connection() as connection:
        await put_dead(connection, 2)
        one = await start(database, Action.REDRIVE, per_second=1.0)
        await BulkDue(database, lambda: None).run_once()
        await put_dead(connection, 1)
        await connection.execute("UPDATE mainspring.bulk_operations SET next_at = clock_timestamp(), per_second = NULL")
        ended = await run(database, one)
        assert (ended.state, ended.progress.taken) == ("finished", 2)
        assert await connection.fetchval("SELECT count(*) FROM mainspring.dead_letters") == 1


async def test_a_canary_goes_on_when_its_jobs_succeed(database: Database) -> None:
    async with database.connection() as connection:
        dead = await put_dead(connection, 20)
        one = await start(database, Action.REDRIVE, canary=Canary((0.1, 0.5)))
        one = await run(database, one)
        assert (one.state, one.progress.taken, one.progress.pending) == ("running", 2, 2)
        assert await states(connection, dead[:2]) == ["scheduled", "scheduled"]
        await succeed(connection, await begin(connection, dead[0]))
        handed = await begin(connection, dead[1])
        await fail(connection, handed, Outcome.HANDED_BACK)
        one = await look(database, one)
        assert (one.progress.taken, one.progress.succeeded, one.progress.pending) == (2, 1, 1)
        # A job that a person cancels says nothing.
        await jobs.cancel(connection, dead[1], "somebody")
        one = await look(database, one)
        assert (one.progress.step, one.progress.taken, one.progress.pending) == (1, 10, 8)
        for job_id in dead[2:10]:
            await succeed(connection, await begin(connection, job_id))
        one = await look(database, one)
        assert (one.progress.step, one.progress.taken) == (2, 20)
        for job_id in dead[10:]:
            await succeed(connection, await begin(connection, job_id))
        one = await look(database, one)
        assert (one.state, one.progress.succeeded, one.progress.failed) == ("finished", 19, 0)
        assert await connection.fetchval("SELECT count(*) FROM mainspring.canary_jobs") == 0


async def test_a_canary_stops_by_itself_when_too_many_fail_again(database: Database) -> None:
    async with database.connection() as connection:
        dead = await put_dead(connection, 40)
        one = await run(database, await start(database, Action.REDRIVE, canary=Canary((0.1,), 0.25)))
        assert one.progress.taken == 4
        for job_id in dead[:2]:
            await succeed(connection, await begin(connection, job_id))
        await fail(connection, await begin(connection, dead[2]))
        await fail(connection, await begin(connection, dead[3]), Outcome.TIMED_OUT)
        one = await look(database, one)
        assert (one.state, one.reason) == ("stopped", "2 of 4 failed again: 50%, and 25% may")
        assert one.finished_at is not None
        assert await states(connection, dead[4:]) == ["dead"] * 36
        assert await connection.fetchval("SELECT count(*) FROM mainspring.canary_jobs") == 0


async def look(database: Database, one: BulkOperation) -> BulkOperation:
    """As ``run``, when the wait for the canary's jobs is over."""
    async with database.connection() as connection:
        await connection.execute("UPDATE mainspring.bulk_operations SET next_at = clock_timestamp()")
    return await run(database, one)


async def test_a_cancelled_operation_takes_no_more(database: Database) -> None:
    async with database.connection() as connection:
        dead = await put_dead(connection, 3)
        one = await start(database, Action.REDRIVE, per_second=1.0)
        await BulkDue(database, lambda: None).run_once()
        await bulk.cancel(connection, one.id)
        await connection.execute("UPDATE mainspring.bulk_operations SET next_at = clock_timestamp()")
        assert (await run(database, one)).progress.taken == 1
        assert Counter(await states(connection, dead)) == {"scheduled": 1, "dead": 2}
        with pytest.raises(Conflict, match="cancelled already"):
            await bulk.cancel(connection, one.id)
        with pytest.raises(NotFound):
            await bulk.cancel(connection, uuid4())


async def test_too_many_at_once_are_refused(database: Database) -> None:
    for _ in range(bulk.MOST_RUNNING):
        await start(database, Action.REDRIVE)
    with pytest.raises(Conflict, match="run already"):
        await start(database, Action.REDRIVE)
