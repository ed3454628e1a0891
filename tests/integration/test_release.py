"""Release: exactly as many as asked, in order, into the outbox; and nothing is overlooked."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime, timedelta

import pytest

from mainspring.domain.job import JobRequest
from mainspring.domain.states import State
from mainspring.store import jobs, queues, release
from mainspring.store.pool import Conn, Database, connect
from mainspring.store.release import Bounds, Counted, Released

from .rows import put_job

JOIN_METHODS = ("hashjoin", "mergejoin", "material", "hashagg", "sort", "memoize", "nestloop")


async def release_once(database: Database, bounds: Bounds | None = None, batch: int = 100) -> Released:
    return await database.run(
        lambda connection: release.release(connection, "q", bounds or Bounds(), refs_in_batch=batch)
    )


async def submit(connection: Conn, count: int, **fields: object) -> list[jobs.NewJob]:
    made = await jobs.insert(connection, [JobRequest("t", queue="q", **fields) for _ in range(count)])  # type: ignore[arg-type]
    await queues.adopt_queues(connection)
    return made


async def test_p01_the_limit_holds_under_every_join_method(database: Database) -> None:
    async with database.connection() as connection:
        await submit(connection, 100)
        await queues.change(connection, "q", {"release_window": 5})
        for method in JOIN_METHODS:
            async with connection.transaction():
                await connection.execute(f"SET LOCAL enable_{method} = off")
                await connection.execute("DISCARD PLANS")  # a plan that is kept knows nothing of the setting
                released = await release.release(connection, "q", Bounds())
                await connection.execute("UPDATE mainspring.live_jobs SET state = 'scheduled'")
                assert released.count == 5, method


async def test_p01_the_limit_holds_with_all_but_nested_loops_off(database: Database) -> None:
    async with database.connection() as connection:
        await submit(connection, 100)
        await queues.change(connection, "q", {"release_window": 5})
        async with connection.transaction():
            for method in JOIN_METHODS[:-1]:
                await connection.execute(f"SET LOCAL enable_{method} = off")
            await connection.execute("DISCARD PLANS")
            released = await release.release(connection, "q", Bounds())
        changed = await connection.fetchval("SELECT count(*) FROM mainspring.live_jobs WHERE state = 'enqueued'")
    assert (released.count, changed) == (5, 5)


async def test_p07_a_job_that_commits_late_is_released_too(database: Database, database_url: str) -> None:
    slow = await connect(database_url, "slow")
    try:
        transaction = slow.transaction()
        await transaction.start()
        (first,) = await jobs.insert(slow, [JobRequest("t", queue="q")])
        async with database.connection() as connection:
            (second,) = await submit(connection, 1)
        bounds = Bounds(margin=timedelta(0))
        early = await release_once(database, bounds)
        await transaction.commit()
        bounds.forget()  # the sweep
        late = await release_once(database, bounds)
    finally:
        await slow.close()
    assert [ref.id for batch in early.batches for ref in batch.refs] == [second.id]
    assert [ref.id for batch in late.batches for ref in batch.refs] == [first.id]


async def test_priority_then_due_time_decides_the_order(database: Database) -> None:
    async with database.connection() as connection:
        made = [(await submit(connection, 1, priority=priority))[0] for priority in (5, 0, 9, 5, 0)]
    released = await release_once(database, batch=2)
    order = [ref.id for batch in released.batches for ref in batch.refs]
    assert order == [made[index].id for index in (1, 4, 0, 3, 2)]
    assert [len(batch.refs) for batch in released.batches] == [2, 2, 1]


async def test_first_priority_jobs_of_the_future_hide_nothing(database: Database) -> None:
    async with database.connection() as connection:
        await submit(connection, 50, priority=0, delay=timedelta(hours=1))
        (due,) = await submit(connection, 1, priority=9)
    released = await release_once(database)
    assert [ref.id for batch in released.batches for ref in batch.refs] == [due.id]


async def test_the_window_bounds_what_is_in_the_broker(database: Database) -> None:
    async with database.connection() as connection:
        await submit(connection, 30)
        await queues.change(connection, "q", {"release_window": 10})
    counts = [(await release_once(database)).count for _ in range(3)]
    assert counts == [10, 0, 0]


async def test_schedulers_side_by_side_never_exceed_the_window(database: Database) -> None:
    async with database.connection() as connection:
        await submit(connection, 200)
        await queues.change(connection, "q", {"release_window": 50})
    for _ in range(10):
        await asyncio.gather(*(release_once(database) for _ in range(8)))
    async with database.connection() as connection:
        enqueued = await connection.fetchval("SELECT count(*) FROM mainspring.live_jobs WHERE state = 'enqueued'")
        in_outbox = await connection.fetchval("SELECT coalesce(sum(cardinality(ids)), 0) FROM mainspring.outbox")
    assert (enqueued, in_outbox) == (50, 50)


async def test_a_limited_queue_gets_no_more_than_it_has_room_for(database: Database) -> None:
    async with database.connection() as connection:
        await submit(connection, 30)
        await queues.set_concurrency(connection, "q", 4)
        await put_job(connection, State.RUNNING)
        await put_job(connection, State.ADMITTED)
    counts = [(await release_once(database)).count for _ in range(2)]
    assert counts == [2, 0]


@pytest.mark.parametrize(
    ("window", "most", "in_broker", "held", "credit"),
    [
        (100, None, 40, 50, 60),
        (100, None, 100, 0, 0),
        (100, None, 130, 0, 0),
        (100, 10, 0, 0, 10),
        (100, 10, 3, 4, 3),
        (100, 10, 4, 8, 0),
        (100, 500, 20, 0, 80),
    ],
)
async def test_the_credit_fits_the_window_and_the_free_slots_of_a_limit(
    database: Database, window: int, most: int | None, in_broker: int, held: int, credit: int
) -> None:
    async with database.connection() as connection:
        await submit(connection, 1)
        await queues.change(connection, "q", {"release_window": window})
        if most is not None:
            await queues.set_concurrency(connection, "q", most)
        for state, count in ((State.ENQUEUED, in_broker), (State.RUNNING, held)):
            for _ in range(count):
                await put_job(connection, state)
    released = await release_once(database)
    assert (released.credit, released.count) == (credit, min(credit, 1))


async def test_a_release_that_a_crash_loses_is_done_again_under_the_same_tickets(database: Database) -> None:
    """Its commit doesn't wait for the disk: the message may be there, and the row as it was before."""
    async with database.connection() as connection:
        await submit(connection, 3)
        transaction = connection.transaction()
        await transaction.start()
        lost = await release.release(connection, "q", Bounds())
        assert await connection.fetchval("SHOW synchronous_commit") == "off"
        await transaction.rollback()
        assert await connection.fetchval("SHOW synchronous_commit") == "on"
    again = await release_once(database)
    assert [batch.refs for batch in again.batches] == [batch.refs for batch in lost.batches]


async def test_published_batches_are_forgotten_by_the_next_release(database: Database) -> None:
    async with database.connection() as connection:
        await submit(connection, 4)
        first, second = (await release.release(connection, "q", Bounds(), refs_in_batch=2)).batches
        await release.release(connection, "q", Bounds(), published=[first.id])
        left = await connection.fetch("SELECT id FROM mainspring.outbox")
    assert [row["id"] for row in left] == [second.id]


async def test_a_paused_queue_releases_nothing(database: Database) -> None:
    async with database.connection() as connection:
        await submit(connection, 3)
        await queues.pause(connection, "q")
    assert (await release_once(database)).is_locked_elsewhere


async def test_a_bounded_scan_finds_all_jobs_that_are_new(database: Database) -> None:
    bounds = Bounds()
    total = 0
    for _ in range(20):
        async with database.connection() as connection:
            await submit(connection, 7, priority=3)
        total += (await release_once(database, bounds)).count
    assert total == 140
    assert min(bounds.of("q")) < datetime.now(UTC) - timedelta(days=365)
    assert max(bounds.of("q")) > datetime.now(UTC) - timedelta(days=1)


async def test_a_run_at_in_the_past_is_due_now_and_not_behind_the_bound(database: Database) -> None:
    bounds = Bounds()
    async with database.connection() as connection:
        await submit(connection, 1)
        await release_once(database, bounds)
        await submit(connection, 1, run_at=datetime(2001, 1, 1, tzinfo=UTC))
    assert (await release_once(database, bounds)).count == 1


async def test_a_returned_batch_waits_again_and_its_queue_backs_off_alone(database: Database) -> None:
    async with database.connection() as connection:
        await submit(connection, 3)
        await jobs.insert(connection, [JobRequest("t", queue="other")])
        await queues.adopt_queues(connection)
    (batch,) = (await release_once(database)).batches
    async with database.connection() as connection:
        assert len(await release.put_back(connection, batch, timedelta(seconds=30))) == 3
        assert len(await release.put_back(connection, batch, timedelta(seconds=30))) == 0
    assert (await release_once(database)).is_locked_elsewhere
    other = await database.run(lambda connection: release.release(connection, "other", Bounds()))
    assert other.count == 1


async def test_a_job_that_has_waited_long_comes_before_younger_ones_of_higher_priority(database: Database) -> None:
    async with database.connection() as connection:
        made = {}
        for priority, minutes in ((5, 0), (5, 11), (7, 11), (9, 60), (3, 0), (4, 5.5), (0, 0)):
            (one,) = await submit(connection, 1, priority=priority)
            made[one.id] = (priority, minutes)
            await connection.execute(
                "UPDATE mainspring.live_jobs SET due_at = due_at - $2::interval WHERE id = $1",
                *(one.id, timedelta(minutes=minutes)),
            )
        released = await release_once(database)
        order = [made[ref.id] for batch in released.batches for ref in batch.refs]
        assert order == [(9, 60), (0, 0), (5, 11), (4, 5.5), (3, 0), (7, 11), (5, 0)]


async def test_a_queue_without_aging_goes_by_priority_alone(database: Database) -> None:
    async with database.connection() as connection:
        (old,) = await submit(connection, 1, priority=9)
        await connection.execute("UPDATE mainspring.live_jobs SET due_at = due_at - interval '1 day'")
        (young,) = await submit(connection, 1, priority=8)
        await queues.change(connection, "q", {"aging_seconds": None})
        released = await release_once(database)
        assert [ref.id for ref in released.batches[0].refs] == [young.id, old.id]


def test_a_look_back_begins_a_minute_before_the_furthest_reach_and_a_sweep_at_the_start() -> None:
    bounds, at = Bounds(margin=timedelta(0)), datetime(2026, 1, 1, tzinfo=UTC)
    bounds.advance("q", {5: at})
    assert bounds.of("q")[5] == at
    bounds.look_back("q")
    assert bounds.of("q")[5] == at - timedelta(minutes=1)
    assert bounds.of("q")[4] == release.ALWAYS
    # What such a scan finds is older; the next scan begins behind it, and the next look back where this one did.
    bounds.advance("q", {5: at - timedelta(seconds=30)})
    assert bounds.of("q")[5] == at - timedelta(seconds=30)
    bounds.look_back("q")
    bounds.look_back("q")
    assert bounds.of("q")[5] == at - timedelta(minutes=1)
    bounds.forget()
    assert bounds.of("q")[5] == release.ALWAYS
    bounds.look_back("q")
    assert bounds.queues() == []


async def test_what_was_counted_a_moment_ago_is_not_counted_again_while_it_leaves_half_of_the_window(
    database: Database,
) -> None:
    async with database.connection() as connection:
        await submit(connection, 30)
        await queues.change(connection, "q", {"release_window": 20})

        async def take(most: int, counted: Counted | None) -> Released:
            return await release.release(connection, "q", Bounds(), most=most, refs_in_batch=2, counted=counted)

        first = await take(2, None)
        assert (first.counted, first.credit) == (Counted(0, 0), 20)
        second = await take(3, first.counted)
        assert (second.counted, second.credit) == (None, 18)
        # Two in the first batch, and four at most in the two of the second.
        third = await take(1, first.counted)
        assert (third.counted, third.credit) == (None, 14)
        # Of six that are there ten could be, by the ids that were given out: half of the window.
        await connection.execute("SELECT nextval('mainspring.outbox_id_seq')")
        fourth = await take(30, first.counted)
        assert (fourth.count, fourth.credit) == (10, 10)
        fifth = await take(30, first.counted)
        assert (fifth.counted and fifth.counted.jobs, fifth.count) == (16, 4)
        assert await connection.fetchval("SELECT count(*) FROM mainspring.live_jobs WHERE state = 'enqueued'") == 20


async def test_the_queue_s_own_concurrency_is_always_counted(database: Database) -> None:
    async with database.connection() as connection:
        await submit(connection, 10)
        await queues.set_concurrency(connection, "q", 3)
        released = await release.release(connection, "q", Bounds(), counted=Counted(0, 0))
    assert (released.count, released.counted) == (3, Counted(0, 0))


@pytest.mark.parametrize("seed", range(10))
async def test_schedulers_that_count_now_and_then_never_fill_more_than_the_window(
    database: Database, seed: int
) -> None:
    dice = random.Random(seed)
    window = dice.choice([5, 20, 50])
    async with database.connection() as connection:
        await submit(connection, 400)
        await queues.change(connection, "q", {"release_window": window})
        known: list[Counted | None] = [None, None, None]
        there = 0
        for _ in range(60):
            who = dice.randrange(3)
            released = await release.release(
                connection, "q", Bounds(), most=dice.randint(1, 20), refs_in_batch=7, counted=known[who]
            )
            known[who] = released.counted or known[who]
            there += released.count
            assert there <= window
            if dice.random() < 0.5:
                gone = await connection.fetch(
                    "DELETE FROM mainspring.live_jobs WHERE id IN (SELECT id FROM mainspring.live_jobs"
                    " WHERE state = 'enqueued' LIMIT $1) RETURNING id",
                    dice.randint(0, 20),
                )
                there -= len(gone)
        assert await connection.fetchval("SELECT count(*) FROM mainspring.live_jobs WHERE state = 'enqueued'") == there
