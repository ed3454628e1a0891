"""The jobs of a fire that are released by their own insert: only where nothing but credit is asked for."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from mainspring.broker.publisher import Publisher
from mainspring.domain.firing import Misfire, Overlap
from mainspring.domain.job import JobRef
from mainspring.domain.states import State
from mainspring.fault_points import VARIABLE
from mainspring.store import queues
from mainspring.store.pool import Database
from mainspring.store.release import Bounds
from mainspring_services.scheduler.fire_due import FireDue
from mainspring_services.scheduler.queue_topology import QueueTopology
from mainspring_services.scheduler.release_due import ReleaseDue

from .rows import put_job
from .schedules import firing, jobs_of, make_due, save
from .system import System
from .test_counterexamples import claim


async def due(database: Database, name: str, minutes: float = 1.0, **fields: Any) -> None:
    """A schedule that is due, and its queue."""
    await save(database, name, queue="q", every_seconds=60, **fields)
    await make_due(database, name, timedelta(minutes=minutes))
    async with database.connection() as connection:
        await queues.make_queues(connection, ["q"])


async def states(database: Database) -> dict[str, int]:
    """How many live jobs are in which state."""
    async with database.connection() as connection:
        rows = await connection.fetch("SELECT state, count(*) FROM mainspring.live_jobs GROUP BY state")
    return {row["state"]: row["count"] for row in rows}


async def test_a_fire_releases_its_job_and_hands_over_what_is_to_be_published(
    database: Database, vhost_url: str
) -> None:
    await due(database, "s")
    publisher, topology = Publisher(vhost_url, "test"), QueueTopology(vhost_url)
    await topology.declare_all(["q"])
    releases = ReleaseDue(database, publisher, topology, Bounds(), 10)
    try:
        await FireDue(database, releases).run_once()
        (row,) = await jobs_of(database, "s")
        assert (row["state"], row["fence"]) == (State.ENQUEUED, 2)
        async with database.connection() as connection:
            (stored,) = await connection.fetch("SELECT * FROM mainspring.outbox")
            assert (stored["queue"], stored["ids"], stored["tickets"]) == ("q", [row["id"]], [2])
            assert await connection.fetchval("SELECT released_at = due_at FROM mainspring.live_jobs")
        assert releases.wake.is_set()
        assert (await releases.run_once()).done == 1
        async with database.connection() as connection:
            assert [one.id for one in (await claim(connection, JobRef(row["id"], 2))).claimed] == [row["id"]]
            # Nobody else held the outbox's rows: what was published goes with that pass.
            assert await connection.fetchval("SELECT count(*) FROM mainspring.outbox") == 0
    finally:
        await publisher.close()
        await topology.close()


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE mainspring.queues SET paused = true",
        "UPDATE mainspring.queues SET fair_by = 'customer'",
        "UPDATE mainspring.queues SET backs_off_until = clock_timestamp() + interval '1 minute'",
        "UPDATE mainspring.queues SET release_window = 7",
        "DELETE FROM mainspring.queues",
        "INSERT INTO mainspring.limits (queue, kind, most) VALUES ('q', 'concurrency', 9)",
        "INSERT INTO mainspring.limits (name, kind, most, queues) VALUES ('l', 'concurrency', 9, '{q}')",
        "INSERT INTO mainspring.limits (name, kind, most, tasks) VALUES ('l', 'concurrency', 9, '{t}')",
    ],
)
async def test_what_a_release_has_to_judge_waits_for_one(database: Database, sql: str) -> None:
    await due(database, "s")
    async with database.connection() as connection:
        await connection.execute(sql)
    await firing(database).run_once()
    assert await states(database) == {State.SCHEDULED: 1}
    async with database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM mainspring.outbox") == 0


async def test_jobs_that_wait_in_lines_come_first(database: Database) -> None:
    await due(database, "s")
    async with database.connection() as connection:
        await put_job(connection, State.BLOCKED, queue="q", line="[]")
    await firing(database).run_once()
    assert await states(database) == {State.BLOCKED: 1, State.SCHEDULED: 1}


async def test_a_job_that_waits_for_an_earlier_one_is_kept_back(database: Database) -> None:
    await due(database, "s", 5, misfire=Misfire.FIRE_ALL, overlap=Overlap.QUEUE_ALL)
    await firing(database).run_once()
    assert await states(database) == {State.ENQUEUED: 1, State.SCHEDULED: 4}


async def test_a_queue_that_only_the_task_names_is_found(database: Database) -> None:
    await save(database, "s", every_seconds=60)
    await make_due(database, "s", timedelta(minutes=1))
    async with database.connection() as connection:
        await queues.make_queues(connection, ["q"])
        await connection.execute(
            "INSERT INTO mainspring.tasks (name, queue, timeout_seconds, retry, payload_schema)"
            " VALUES ('t', 'q', 9, '{\"max_attempts\": 1}', '{}')"
        )
    await firing(database).run_once()
    (row,) = await jobs_of(database, "s")
    assert (row["queue"], row["state"]) == ("q", State.ENQUEUED)


async def test_fires_of_many_schedulers_leave_half_of_a_window_to_releases(database: Database) -> None:
    async with database.connection() as connection:
        await queues.make_queues(connection, ["q"])
        # As many as four transactions take side by side.
        await connection.execute(
            "INSERT INTO mainspring.schedules (name, task, at, overlap, queue, next_nominal_at, fires_at, active_since)"
            " SELECT 's' || n, 't', due.at, 'allow', 'q', due.at, due.at, due.at"
            " FROM generate_series(1, 2000) AS n, (SELECT clock_timestamp() - interval '1 s' AS at) AS due"
        )
    loops = [firing(database) for _ in range(4)]

    async def fire(loop: FireDue) -> None:
        while (await loop.run_once()).again:
            pass

    await asyncio.gather(*(fire(one) for one in loops))
    found = await states(database)
    assert sum(found.values()) == 2000
    # The window of a queue that no release has filled yet is 100 jobs; each transaction takes an eighth of it at most.
    assert 12 <= found[State.ENQUEUED] <= 50


def test_what_a_killed_scheduler_has_released_is_published_by_another(system: System) -> None:
    system.worker()
    system.ready()
    # The queue is there: its first job is released as usual.
    system.final(system.submit("fleet.add", {"a": 1, "b": 1}))
    system.scheduler.stop()
    system.scheduler.set_environment(VARIABLE, "fire.committed=1")
    body = {"task": "fleet.add", "payload": {"a": 1, "b": 2}, "every_seconds": 1}
    system.http.put("/v1/schedules/doomed", json=body).raise_for_status()
    system.scheduler.start()
    system.until(lambda: not system.scheduler.is_running, 20, "it died at the commit of a fire")
    system.http.post("/v1/schedules/doomed/pause").raise_for_status()
    assert system.query("SELECT state || fence FROM mainspring.live_jobs") == "enqueued2"
    system.scheduler.set_environment(VARIABLE, "")
    system.scheduler.start()
    system.until(lambda: system.count("SELECT count(*) FROM mainspring.finished_jobs") == 2, 20)
