"""Faults on real processes: killed, frozen, with a wrong clock; queues deleted; messages that are none of ours."""

from __future__ import annotations

import json
import re
import time
import uuid
from pathlib import Path
from typing import Any

import httpx
import pytest

from mainspring.broker import topology
from mainspring.broker.connection import connect
from mainspring.broker.delay_ladder import arrival_pattern
from mainspring.devstack.fleet import ServiceProcess

from .system import System


def test_w02_the_jobs_of_a_killed_worker_run_again_exactly_once(system: System) -> None:
    lost = system.worker()
    system.fleet.start("scheduler", beat=1)
    system.ready()
    ids = [system.submit("fleet.slow_at_first") for _ in range(5)]
    for job_id in ids:
        system.started(job_id)
    lost.kill()
    system.worker()
    for job_id in ids:
        job = system.final(job_id)
        assert (job["state"], job["result"], job["attempts_used"]) == ("succeeded", 2, 2)
        assert [attempt["outcome"] for attempt in job["attempts"]] == ["worker_lost", "succeeded"]
    assert system.count("SELECT count(*) FROM effects") == 5
    assert system.count("SELECT count(*) FROM mainspring.completions") == 5
    assert system.count("SELECT count(*) FROM mainspring.live_jobs") == 0


def test_w08_a_zombie_that_comes_back_changes_nothing(system: System) -> None:
    zombie = system.worker(slots=1)
    system.ready()
    job_id = system.submit("fleet.slow_at_first", {"seconds": 8})
    system.started(job_id)
    zombie.freeze()
    other = system.worker(slots=1)
    job = system.final(job_id)
    zombie.thaw()
    assert (job["result"], job["attempts_used"]) == (2, 2)
    time.sleep(2)  # the zombie's own settlement, heartbeat and acknowledgement come now, if ever
    assert system.job(job_id) == job
    assert system.count("SELECT count(*) FROM effects") == 1
    assert system.count("SELECT count(*) FROM mainspring.attempts") == 2
    other.stop()
    # It is no zombie any more: it works again.
    assert system.final(system.submit("fleet.add", {"a": 1, "b": 1}))["state"] == "succeeded"


def test_the_runner_of_a_frozen_supervisor_ends_before_the_lease_can_be_taken(system: System) -> None:
    zombie = system.worker(slots=1)
    system.ready()
    job_id = system.submit("fleet.slow_at_first", {"seconds": 3.5})
    system.started(job_id)
    zombie.freeze()
    system.worker(slots=1)
    job = system.final(job_id)
    zombie.thaw()
    # Had the first handler lived on past its trust window, it would have written its effect at 3.5 s.
    assert system.query("SELECT attempt FROM effects") == "2"
    assert job["attempts_used"] == 2


def test_p03_a_worker_whose_clock_is_ahead_keeps_its_lease(system: System, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import time\n"
        "_time, _time_ns = time.time, time.time_ns\n"
        "time.time = lambda: _time() + 300\n"
        "time.time_ns = lambda: _time_ns() + 300_000_000_000\n"
    )
    system.fleet.set_environment("PYTHONPATH", f"{tmp_path}:{Path(__file__).parents[1]}")
    system.worker()
    system.fleet.start("scheduler", beat=1)
    system.ready()
    job = system.final(system.submit("fleet.nap", {"seconds": 7}))
    assert [attempt["outcome"] for attempt in job["attempts"]] == ["succeeded"]


def test_killing_scheduler_and_dispatcher_delays_and_loses_nothing(system: System) -> None:
    system.worker()
    system.ready()
    ids = []
    for number in range(40):
        ids.append(system.submit("fleet.effect"))
        if number % 10 == 5:
            system.scheduler.kill()
            system.scheduler.start()
        if number % 10 == 8:
            system.dispatcher.kill()
            system.dispatcher.start()
    assert {system.final(job_id)["state"] for job_id in ids} == {"succeeded"}
    assert system.count("SELECT count(*) FROM effects") == 40
    assert system.count("SELECT count(*) FROM mainspring.attempts WHERE outcome <> 'succeeded'") == 0


def test_d01_a_batch_that_was_committed_and_never_published_is_published_by_another(system: System) -> None:
    ids = [system.submit("fleet.effect") for _ in range(100)]
    system.scheduler.stop()
    # What a scheduler leaves that was killed between its commit and the publish.
    system.query(
        "WITH released AS (UPDATE mainspring.live_jobs SET state = 'enqueued', fence = fence + 1,"
        " released_at = clock_timestamp() WHERE state = 'scheduled' RETURNING id, fence)"
        " INSERT INTO mainspring.outbox (queue, ids, tickets)"
        " SELECT 'fleet', array_agg(id), array_agg(fence) FROM released"
        " HAVING count(*) > 0"
    )
    system.scheduler.start()
    system.worker()
    assert {system.final(job_id)["state"] for job_id in ids} == {"succeeded"}
    assert system.count("SELECT count(*) FROM effects") == 100
    system.until(lambda: not system.count("SELECT count(*) FROM mainspring.outbox"))


@pytest.mark.parametrize("exchange", [topology.WORK, topology.DUE])
def test_d03_what_is_unroutable_is_not_counted_as_published(system: System, vhost_url: str, exchange: str) -> None:
    system.worker()
    system.ready()
    system.final(system.submit("fleet.add", {"a": 1, "b": 1}))
    queue, key, publisher = {
        topology.WORK: (topology.work_queue("fleet"), "fleet", system.dispatcher),
        topology.DUE: (topology.due_queue("fleet"), arrival_pattern("fleet"), system.scheduler),
    }[exchange]
    system.stack.rabbitmq.delete_binding(vhost_of(vhost_url), exchange, queue, key)
    ids = [system.submit("fleet.effect") for _ in range(10)]
    assert {system.final(job_id)["state"] for job_id in ids} == {"succeeded"}
    assert system.count("SELECT count(*) FROM effects") == 10
    metrics = httpx.get(f"http://127.0.0.1:{publisher.port}/metrics").text
    assert re.search(rf'publish_returned_total{{exchange="{exchange}"}} [1-9]', metrics)


def vhost_of(url: str) -> str:
    return url.rsplit("/", 1)[1]


BAD_BODIES: dict[str, bytes] = {
    "not_utf8": b"\xff\xfe",
    "not_json": b"{",
    "not_an_object": b"[]",
    "bad_job_id": b'{"v":1,"queue":"fleet","jobs":[["not-a-uuid",1]]}',
    "empty": b"",
    "unknown_job": json.dumps({"v": 1, "queue": "fleet", "jobs": [[uuid.uuid4().hex, 1]]}).encode(),
    "wrong_content_type": b'{"v":1,"queue":"fleet","jobs":[]}',
}


async def test_d08_bad_messages_are_kept_with_their_reason_and_stop_nobody(system: System, vhost_url: str) -> None:
    system.worker()
    system.ready()
    await publish_bad(vhost_url)
    ids = [system.submit("fleet.effect") for _ in range(20)]
    assert {system.final(job_id, 10)["state"] for job_id in ids} == {"succeeded"}
    kept = "SELECT count(*) FROM mainspring.dead_letters WHERE kind = 'message'"
    system.until(lambda: system.count(kept) >= len(BAD_BODIES), what=f"kept: {system.query(kept)}")
    for reason, body in BAD_BODIES.items():
        found = system.query(f"SELECT encode(body, 'hex') FROM mainspring.dead_letters WHERE reason = '{reason}'")
        assert found == body.hex(), reason
    assert system.count(kept) == len(BAD_BODIES)


async def publish_bad(url: str) -> None:
    import aio_pika

    link = await connect(url, "test")
    channel = await link.channel(confirms=True)
    for reason, body in BAD_BODIES.items():
        kind = "x" if reason == "wrong_content_type" else "application/json"
        message = aio_pika.Message(body, content_type=kind)
        await channel.default_exchange.publish(message, topology.work_queue("fleet"), mandatory=True)
    await link.close()


def test_a_limit_of_two_is_never_exceeded_by_two_dispatchers_and_two_workers(system: System) -> None:
    system.fleet.start("dispatcher")
    system.fleet.start("scheduler", beat=1)
    workers = [system.worker(slots=10) for _ in range(2)]
    system.ready()
    assert system.http.put("/v1/queues/fleet", json={"concurrency": 2}).status_code == 200
    ids = [system.submit("fleet.nap", {"seconds": 0.2}) for _ in range(24)]
    system.until(lambda: system.count("SELECT count(*) FROM mainspring.completions") >= 4)
    system.dispatcher.kill()
    workers[0].kill()
    assert {system.final(job_id, 60)["state"] for job_id in ids} == {"succeeded"}
    assert most_at_once(system) <= 2
    assert system.count("SELECT count(*) FROM mainspring.live_jobs") == 0


def most_at_once(system: System) -> int:
    """From each attempt's start to its end as Postgres recorded them."""
    return system.count(
        "WITH turns AS (SELECT started_at AS at, 1 AS turn FROM mainspring.attempts"
        " UNION ALL SELECT ended_at, -1 FROM mainspring.attempts)"
        " SELECT max(at_once) FROM (SELECT sum(turn) OVER (ORDER BY at, turn) AS at_once FROM turns) AS counted"
    )


def test_d02_a_long_job_rests_on_its_lease_and_not_on_its_message(system: System, vhost_url: str) -> None:
    system.worker(ack_handover=2)
    system.ready()
    later = system.submit("fleet.add", {"a": 1, "b": 1}, delay_seconds=7200)
    long = system.submit("fleet.nap", {"seconds": 8})
    short = [system.submit("fleet.add", {"a": 1, "b": 1}) for _ in range(4)]
    system.started(long)
    # The broker's counts are a little late: only after its message was seen does its absence say something.
    system.until(lambda: in_flight(system, vhost_url) == 1, 2, "the message in hand")
    system.until(lambda: in_flight(system, vhost_url) == 0, 5, "the message was handed over")
    assert system.job(long)["state"] == "running"
    for job_id in [long, *short]:
        assert system.final(job_id)["attempt"] == 1
    assert (system.job(later)["state"], in_flight(system, vhost_url)) == ("scheduled", 0)


def in_flight(system: System, vhost_url: str) -> int:
    queues: list[dict[str, Any]] = system.stack.rabbitmq.queues(vhost_of(vhost_url))
    return sum(queue.get("messages", 0) for queue in queues)


def test_d06_another_argument_of_a_queue_is_one_clear_error_and_an_exit(system: System, vhost_url: str) -> None:
    system.scheduler.stop()
    declare_without_arguments(vhost_url, topology.work_queue("fleet"))
    system.http.put("/v1/queues/fleet", json={}).raise_for_status()
    system.scheduler.start()
    assert system.scheduler.wait() != 0
    log = system.scheduler.log_path.read_text()
    assert topology.work_queue("fleet") in log
    assert "x-" in log


def declare_without_arguments(url: str, name: str) -> None:
    import asyncio

    async def work() -> None:
        link = await connect(url, "test")
        channel = await link.channel()
        await channel.declare_queue(name, durable=True)
        await link.close()

    asyncio.run(work())


def test_d06_jobs_in_the_queues_of_another_topology_version_are_brought_over(system: System) -> None:
    ids = [system.submit("fleet.effect") for _ in range(5)]
    system.scheduler.stop()
    # As an older release left them: enqueued, their messages in queues that nobody consumes any more.
    system.query(
        "UPDATE mainspring.live_jobs SET state = 'enqueued', fence = fence + 1, released_at = clock_timestamp()"
    )
    system.query("DELETE FROM mainspring.outbox; UPDATE mainspring.broker_epoch SET topology_version = 0")
    system.scheduler.start()
    system.worker()
    assert {system.final(job_id)["state"] for job_id in ids} == {"succeeded"}


def ten_that_wait_for_a_worker(system: System) -> list[str]:
    """Jobs whose messages are all in the workers' queue, and nobody takes them."""
    system.worker()
    system.ready()
    system.final(system.submit("fleet.add", {"a": 1, "b": 1}))
    system.fleet.services[-1].stop()
    ids = [system.submit("fleet.effect") for _ in range(10)]
    system.until(lambda: system.count("SELECT count(*) FROM mainspring.live_jobs WHERE state = 'enqueued'") == 10)
    system.until(lambda: system.messages_in(topology.due_queue("fleet")) == 0, what="all are with the workers' queue")
    return ids


def test_a_deleted_queue_is_made_again_and_its_jobs_come_back(system: System, vhost_url: str) -> None:
    ids = ten_that_wait_for_a_worker(system)
    # Nothing is on its way, so that it is the scheduler's own look that finds them gone.
    for queue in (topology.work_queue("fleet"), topology.due_queue("fleet")):
        system.stack.rabbitmq.delete_queue(vhost_of(vhost_url), queue)
    system.worker()
    assert {system.final(job_id)["state"] for job_id in ids} == {"succeeded"}
    assert system.count("SELECT count(*) FROM effects") == 10


def test_what_a_deleted_queue_held_comes_back_when_the_next_message_is_returned(system: System, vhost_url: str) -> None:
    ids = ten_that_wait_for_a_worker(system)
    system.stack.rabbitmq.delete_queue(vhost_of(vhost_url), topology.work_queue("fleet"))
    # The dispatcher finds it gone before a scheduler looks for it, and makes it again.
    ids.append(system.submit("fleet.effect"))
    parts = system.dispatcher, system.scheduler
    system.until(lambda: sum(map(reconciled, parts)) >= 10, what="all are released again")
    system.worker()
    assert {system.final(job_id)["state"] for job_id in ids} == {"succeeded"}
    assert system.count("SELECT count(*) FROM effects") == 11


def reconciled(service: ServiceProcess) -> int:
    metrics = httpx.get(f"http://127.0.0.1:{service.port}/metrics").text
    found = re.findall(r'jobs_reconciled_total{cause="(?:queue_missing|amnesia)"} ([0-9]+)', metrics)
    return sum(map(int, found))


def test_every_nominal_time_has_one_job_while_schedulers_are_killed(system: System) -> None:
    second = system.fleet.start("scheduler", beat=1)
    system.worker()
    system.ready()
    schedule = {"name": "tick", "task": "fleet.add", "payload": {"a": 1, "b": 1}, "every_seconds": 1}
    schedule |= {"overlap": "allow", "misfire": "fire_all"}
    assert system.http.post("/v1/schedules", json=schedule).status_code == 201
    for victim in (system.scheduler, second, system.scheduler):
        time.sleep(1.5)
        victim.kill()
        victim.start()
    fired = "SELECT count(*) FROM mainspring.fires WHERE job_id IS NOT NULL"
    system.until(lambda: system.count(fired) >= 6, what="six fires")
    system.http.post("/v1/schedules/tick/pause").raise_for_status()
    seconds = system.count(
        "SELECT extract(epoch FROM max(nominal_at) - min(nominal_at))::int + 1 FROM mainspring.fires"
    )
    # A time that came between the last fire and the pause is recorded as skipped by the pause.
    paused = system.count("SELECT coalesce(sum(nominal_times), 0) FROM mainspring.fires WHERE skipped = 'paused'")
    jobs = system.count("SELECT count(DISTINCT nominal_at) FROM mainspring.jobs WHERE schedule = 'tick'")
    assert system.count(fired) == seconds - paused == jobs
    assert paused <= 1
