"""Lines: what a release takes when jobs of a queue are under limits that others of it are not, or take turns."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

from mainspring.domain.job import JobRef, JobRequest
from mainspring.domain.limits import Kind, Limit
from mainspring.domain.retry import DEFAULT
from mainspring.domain.states import State
from mainspring.domain.turns import Turns
from mainspring.store import admission, jobs, limits, lines, queues
from mainspring.store.pool import Conn, Database
from mainspring.store.release import Bounds, Released

from .rows import live, put_job

PER_KEY = Limit("each", Kind.CONCURRENCY, 1, queues=("q",), per="k")


async def submit(connection: Conn, count: int, key: Any = None, **fields: Any) -> None:
    payload = json.dumps({} if key is None else {"k": key})
    many = [JobRequest(fields.pop("task", "t"), payload, queue="q", **fields) for _ in range(1)] * count
    await jobs.insert(connection, many)


class Scheduler:
    """What one scheduler process does with queue q, pass by pass."""

    def __init__(self, connection: Conn) -> None:
        self.connection = connection
        self.bounds = Bounds()
        self.turns = Turns()

    async def serve(self, window: int | None = None, most: int = 1000) -> Released:
        async with self.connection.transaction():
            return await lines.serve(
                self.connection, "q", self.bounds, self.turns, window=window, most=most, refs_in_batch=100
            )

    async def keys(self, released: Released) -> list[str]:
        """The keys of what was released, in the order of the messages."""
        ids = [ref.id for batch in released.batches for ref in batch.refs]
        rows = await self.connection.fetch(
            "SELECT id, payload ->> 'k' AS key FROM mainspring.job_details WHERE id = ANY ($1)", ids
        )
        by_id = {row["id"]: row["key"] for row in rows}
        return [by_id[each] for each in ids]

    async def finish(self, released: Released) -> None:
        """The jobs have run."""
        ids = [ref.id for batch in released.batches for ref in batch.refs]
        await self.connection.execute("DELETE FROM mainspring.live_jobs WHERE id = ANY ($1)", ids)


async def test_ten_thousand_jobs_of_one_key_do_not_hold_up_another_key(database: Database) -> None:
    async with database.connection() as connection:
        await limits.save(connection, PER_KEY)
        await submit(connection, 10_000, "a")
        await submit(connection, 1, "b")
        scheduler = Scheduler(connection)
        seen: list[str] = []
        for _ in range(11):
            seen += await scheduler.keys(await scheduler.serve())
        assert Counter(seen) == {"a": 1, "b": 1}
        states = await connection.fetch("SELECT state, count(*) AS n FROM mainspring.live_jobs GROUP BY state")
        assert {row["state"]: row["n"] for row in states} == {"admitted": 2, "blocked": 9_999}


async def test_keys_take_turns_by_their_weights(database: Database) -> None:
    async with database.connection() as connection:
        await queues.make_queues(connection, ["q"])
        await queues.change(connection, "q", {"fair_by": "k", "fair_weights": {"big": 3}})
        await submit(connection, 100, "many")
        await submit(connection, 100, "big")
        await submit(connection, 5, "few")
        await submit(connection, 5)
        scheduler = Scheduler(connection)
        first = await scheduler.serve(window=18)
        assert Counter(await scheduler.keys(first)) == {"big": 9, "many": 3, "few": 3, None: 3}
        await scheduler.finish(first)
        assert Counter(await scheduler.keys(await scheduler.serve(window=6))) == {
            "big": 3,
            "many": 1,
            "few": 1,
            None: 1,
        }


async def test_the_first_priority_goes_before_all_turns(database: Database) -> None:
    async with database.connection() as connection:
        await limits.save(connection, Limit("each", Kind.CONCURRENCY, 50, queues=("q",), per="k"))
        for key in "abc":
            await submit(connection, 20, key)
        await submit(connection, 4, "c", priority=0)
        scheduler = Scheduler(connection)
        assert await scheduler.keys(await scheduler.serve(window=7)) == ["c"] * 4 + ["a", "b", "c"]


async def test_more_lines_than_a_pass_looks_at_all_have_their_turn(database: Database) -> None:
    async with database.connection() as connection:
        await limits.save(connection, PER_KEY)
        count = 2 * lines.MOST_LINES + 50
        await queues.change(connection, "q", {"release_window": 100_000, "fair_by": "k"})
        await jobs.insert(
            connection, [JobRequest("t", json.dumps({"k": n % count}), queue="q") for n in range(2 * count)]
        )
        scheduler = Scheduler(connection)
        assert (await scheduler.serve(window=0)).count == 0  # all join their lines
        seen: Counter[str] = Counter()
        for expected in (lines.MOST_LINES, lines.MOST_LINES, 50):
            released = await scheduler.serve()
            assert released.count == expected
            seen.update(await scheduler.keys(released))
        assert len(seen) == count
        assert set(seen.values()) == {1}
        assert (await scheduler.serve()).waits_for_room


async def test_what_is_not_due_joins_no_line(database: Database) -> None:
    async with database.connection() as connection:
        await limits.save(connection, PER_KEY)
        await submit(connection, 3, "a", delay=timedelta(hours=1))
        await submit(connection, 1, "a")
        await Scheduler(connection).serve()
        states = await connection.fetch("SELECT state, line FROM mainspring.live_jobs ORDER BY due_at")
        assert [(row["state"], row["line"]) for row in states] == [
            ("admitted", '["", "", {"k": "a"}]'),
            *[("scheduled", None)] * 3,
        ]


async def test_a_rate_lets_go_what_it_has_tokens_for_and_says_when_it_has_more(database: Database) -> None:
    async with database.connection() as connection:
        await limits.save(connection, Limit("r", Kind.RATE, 5, queues=("q",), period_seconds=60, burst=5))
        await submit(connection, 20)
        scheduler = Scheduler(connection)
        first = await scheduler.serve()
        assert first.count == 5
        # What was let go has not taken its tokens yet, and will.
        second = await scheduler.serve()
        assert (second.count, second.waits_for_room) == (0, False)
        ids = [ref.id for ref in first.batches[0].refs]
        await connection.fetch("SELECT * FROM mainspring.take_tokens($1)", ids)
        await connection.execute("UPDATE mainspring.live_jobs SET state = 'retrying' WHERE id = ANY ($1)", ids)
        third = await scheduler.serve()
        assert third.count == 0
        assert third.waits_for_rate is not None
        assert 50 < third.waits_for_rate <= 60


async def test_a_limit_on_a_task_holds_up_no_other_task_of_the_queue(database: Database) -> None:
    async with database.connection() as connection:
        await queues.make_queues(connection, ["q"])
        await connection.execute(
            "INSERT INTO mainspring.tasks (name, queue, timeout_seconds, retry, payload_schema)"
            " VALUES ('slow', 'q', 60, $1, '{}')",
            json.dumps(DEFAULT.as_json()),
        )
        await limits.save(connection, Limit("s", Kind.CONCURRENCY, 1, tasks=("slow",)))
        await submit(connection, 50, task="slow")
        await submit(connection, 3, task="quick")
        scheduler = Scheduler(connection)
        await scheduler.serve()
        tasks = await connection.fetch("SELECT task FROM mainspring.live_jobs WHERE state = 'admitted'")
        assert Counter(row["task"] for row in tasks) == {"slow": 1, "quick": 3}


async def test_two_queues_under_one_limit_are_released_one_after_the_other(database: Database) -> None:
    async with database.connection() as first, database.connection() as second:
        await limits.save(first, Limit("both", Kind.CONCURRENCY, 5, queues=("q", "other")))
        for queue in ("q", "other"):
            await jobs.insert(first, [JobRequest("t", queue=queue)] * 20)
        transaction = first.transaction()
        await transaction.start()
        released = await lines.serve(first, "q", Bounds(), Turns())
        assert (released.count, released.batches[0].is_admitted) == (5, True)

        async def serve_other() -> Released:
            async with second.transaction():
                return await lines.serve(second, "other", Bounds(), Turns())

        other = asyncio.create_task(serve_other())
        done, _ = await asyncio.wait([other], timeout=0.3)
        assert not done
        await transaction.commit()
        assert (await other).count == 0


async def test_what_a_release_has_admitted_goes_on_when_it_is_judged_again(database: Database) -> None:
    """Its outbox row was published by another scheduler, which doesn't know that."""
    async with database.connection() as connection:
        await limits.save(connection, PER_KEY)
        await submit(connection, 2, "a")
        released = await Scheduler(connection).serve()
        [ref] = released.batches[0].refs
        async with connection.transaction():
            answer = await admission.admit(connection, "q", [ref, JobRef(ref.id, ref.ticket - 1)])
        assert answer is not None
        assert (answer.admitted, answer.blocked, answer.stale) == ((ref,), 0, 1)


async def test_lines_empty_when_the_limit_is_lifted(database: Database) -> None:
    async with database.connection() as connection:
        await limits.save(connection, PER_KEY)
        await submit(connection, 30, "a")
        scheduler = Scheduler(connection)
        assert (await scheduler.serve()).count == 1
        assert await limits.delete(connection, "each")
        assert (await scheduler.serve()).count == 29
        last = await scheduler.serve()
        assert (last.count, last.has_lines) == (0, False)


async def test_a_limit_by_another_key_counts_what_waits_and_runs_already(database: Database) -> None:
    async with database.connection() as connection:
        running = await put_job(connection, State.RUNNING)
        await connection.execute(
            """UPDATE mainspring.job_details SET payload = '{"k": "a", "region": "eu"}' WHERE id = $1""", running
        )
        await limits.save(connection, Limit("each", Kind.CONCURRENCY, 5, queues=("q",), per="k"))
        await jobs.insert(connection, [JobRequest("t", '{"k": "a", "region": "eu"}', queue="q")] * 9)
        scheduler = Scheduler(connection)
        assert (await scheduler.serve()).count == 4
        # The five in hand have lines that say nothing of regions, or none at all.
        await limits.save(connection, Limit("region", Kind.CONCURRENCY, 5, queues=("q",), per="region"))
        await connection.execute("UPDATE mainspring.limits SET most = 100 WHERE name = 'each'")
        found = {limit.name: limit for limit in await limits.named(connection)}
        assert await limits.keys_in_use(connection, found["region"]) == [("eu", 5, 0, 0)]


async def test_a_line_keeps_the_order_of_due_times(database: Database) -> None:
    async with database.connection() as connection:
        await limits.save(connection, PER_KEY)
        now = datetime.now(UTC)
        for minutes in (1, 3, 2):
            (one,) = await jobs.insert(connection, [JobRequest("t", '{"k": "a"}', queue="q", tags=(str(minutes),))])
            await connection.execute(
                "UPDATE mainspring.live_jobs SET due_at = $2 WHERE id = $1", one.id, now - timedelta(minutes=minutes)
            )
        scheduler = Scheduler(connection)
        order = []
        for _ in range(3):
            released = await scheduler.serve()
            (ref,) = released.batches[0].refs
            order.append((await live(connection, ref.id))["due_at"])
            await scheduler.finish(released)
        assert order == sorted(order)


async def test_a_line_whose_first_job_has_waited_long_is_served_with_a_higher_priority(database: Database) -> None:
    async with database.connection() as connection:
        await limits.save(connection, PER_KEY)
        await queues.change(connection, "q", {"aging_seconds": 60})
        await submit(connection, 1, "old", priority=9)
        await connection.execute("UPDATE mainspring.live_jobs SET due_at = due_at - interval '5 minutes'")
        await submit(connection, 3, "young", priority=5)
        await submit(connection, 1, "first", priority=3)
        scheduler = Scheduler(connection)
        assert await scheduler.keys(await scheduler.serve(window=2)) == ["first", "old"]


async def test_a_key_that_comes_while_the_backlog_of_another_is_being_sorted_has_its_turn_at_once(
    database: Database,
) -> None:
    async with database.connection() as connection:
        await queues.make_queues(connection, ["q"])
        await queues.change(connection, "q", {"fair_by": "k"})
        await submit(connection, 5_000, "many")
        await submit(connection, 10, "few")
        scheduler = Scheduler(connection)
        assert Counter(await scheduler.keys(await scheduler.serve(window=30))) == {"many": 20, "few": 10}
        sorted_in = "SELECT count(*) FROM mainspring.live_jobs WHERE state = 'blocked'"
        assert await connection.fetchval(sorted_in) < 1_300
        for _ in range(5):
            await scheduler.serve(window=30)
        assert await connection.fetchval(sorted_in) == 4_980


async def test_an_old_job_of_low_priority_goes_behind_no_backlog_of_young_urgent_ones(database: Database) -> None:
    async with database.connection() as connection:
        await limits.save(connection, Limit("wide", Kind.CONCURRENCY, 100_000, queues=("q",), per="k"))
        await queues.change(connection, "q", {"aging_seconds": 1})
        await submit(connection, 1, "old", priority=9)
        await connection.execute("UPDATE mainspring.live_jobs SET due_at = due_at - interval '1 minute'")
        await submit(connection, 2 * lines.LEAST_LOOK, "urgent", priority=0)
        scheduler = Scheduler(connection)
        assert "old" in await scheduler.keys(await scheduler.serve(window=10))
