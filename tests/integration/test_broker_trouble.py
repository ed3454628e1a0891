"""A broker that is there and doesn't do its work: alarms, queues without a leader, consumers that hear nothing."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from mainspring.broker import topology
from mainspring.broker.connection import connect, declare
from mainspring.broker.consumer import Consumer
from mainspring.broker.delivery import Delivery
from mainspring.broker.messages import JobBatch
from mainspring.broker.publisher import Publisher
from mainspring.devstack.fleet import ServiceProcess
from mainspring.devstack.rabbitmq import RabbitMQ
from mainspring.domain.job import JobRef

from .own_system import open_own_system
from .system import System


@pytest.fixture
def own_system() -> Iterator[System]:
    """A whole system on servers that nobody else uses."""
    with open_own_system() as system:
        yield system


def readiness(one: ServiceProcess) -> dict[str, Any]:
    """What /readyz of a service says."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{one.port}/readyz", timeout=5) as answer:
            return dict(json.load(answer))
    except urllib.error.HTTPError as error:
        return dict(json.load(error))


def test_d09_under_a_brokers_alarm_jobs_are_accepted_and_readiness_names_it(own_system: System) -> None:
    worker = own_system.worker()
    own_system.ready()
    own_system.final(own_system.submit("fleet.effect"))
    # What is in the broker already is consumed meanwhile: there are separate connections for it.
    running = own_system.submit("fleet.nap", {"seconds": 2})
    own_system.started(running)
    rabbitmq = own_system.stack.rabbitmq
    rabbitmq.control("set_vm_memory_high_watermark", "0.00001")
    publishers = [own_system.scheduler, own_system.dispatcher, worker]
    for one in publishers:
        own_system.until(lambda one=one: "alarm" in readiness(one)["missing"].get("publishing", ""), 15, one.name)
    own_system.until(lambda: "alarm" in readiness(own_system.api)["degraded"].get("rabbitmq", ""), 15, "api")
    assert readiness(own_system.api)["ready"]
    ids = []
    for _ in range(20):
        began = time.monotonic()
        ids.append(own_system.submit("fleet.effect"))
        assert time.monotonic() - began < 2
    assert own_system.final(running)["state"] == "succeeded"
    open_transactions = (
        "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"
        " AND state_change < clock_timestamp() - interval '1 second'"
    )
    assert own_system.count(open_transactions) == 0
    rabbitmq.control("set_vm_memory_high_watermark", "absolute", "1GB")
    restored = time.monotonic()
    for job_id in ids:
        assert own_system.final(job_id)["state"] == "succeeded"
    for one in publishers:
        own_system.until(lambda one=one: readiness(one)["ready"], 15, one.name)
    assert time.monotonic() - restored < 10
    assert own_system.count("SELECT count(*) FROM effects") == 21


@pytest.mark.slow
def test_a_queue_that_has_lost_its_leader_is_made_again(own_system: System) -> None:
    own_system.worker()
    own_system.ready()
    own_system.final(own_system.submit("fleet.effect"))
    own_system.scheduler.stop()
    asyncio.run(_declare_and_kill(own_system.stack.rabbitmq, "stuck"))
    own_system.stack.rabbitmq.start()
    own_system.scheduler.start()
    job_id = own_system.submit("fleet.effect", queue="stuck")
    own_system.worker(queues="stuck")
    own_system.until(lambda: "had lost their leader" in own_system.scheduler.log_tail(2000), 90, "the probe")
    assert own_system.final(job_id, 60)["state"] == "succeeded"
    assert own_system.count("SELECT count(*) FROM effects") == 2


async def _declare_and_kill(rabbitmq: RabbitMQ, queue: str) -> None:
    """A quorum queue that is a few milliseconds old at the kill never finds its leader again (RabbitMQ 3.10)."""
    link = await connect(rabbitmq.url, "test")
    await declare(link, topology.for_queue(queue))
    rabbitmq.kill()
    await link.lost.wait()
    await link.close()


async def test_a_consumer_that_hears_nothing_of_a_queue_with_messages_is_replaced(vhost_url: str) -> None:
    link = await connect(vhost_url, "test")
    await declare(link, topology.fixed())
    await declare(link, topology.for_queue("deaf"))
    received: asyncio.Queue[Delivery] = asyncio.Queue()
    consumer = Consumer(vhost_url, "test", prefetch=5, receive=received.put_nowait, silent_after=1)
    consumer.consume([topology.work_queue("deaf")])
    running = asyncio.create_task(consumer.run())
    publisher = Publisher(vhost_url, "test")
    batch = JobBatch("deaf", (JobRef(uuid4(), 1),))
    await publisher.publish_work(batch)
    async with asyncio.timeout(10):
        (await received.get()).settle(batch.refs)
    # The broker forgets its consumer, and doesn't say so.
    await consumer.stop_consuming()
    consumer.resume()
    (subscription,) = consumer._open.values()
    while subscription._tag is None:
        await asyncio.sleep(0.01)
    await (await subscription.channel.get_underlay_channel()).basic_cancel(subscription._tag)
    await publisher.publish_work(batch)
    async with asyncio.timeout(10):
        (await received.get()).settle(batch.refs)
    running.cancel()
    await asyncio.wait([running])
    await publisher.close()
    await link.close()


def test_doctor_has_the_broker_rebuilt_and_every_job_released_again(own_system: System) -> None:
    own_system.ready()
    ids = [own_system.submit("fleet.effect") for _ in range(50)]
    own_system.until(
        lambda: own_system.count("SELECT count(*) FROM mainspring.live_jobs WHERE state = 'enqueued'") == 50
    )
    environment = os.environ | own_system.stack.environment()
    command = [sys.executable, "-m", "mainspring.cli.main", "doctor", "--rebuild-broker", "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["jobs_released_again"] == 50
    own_system.worker(slots=20)
    assert {own_system.final(job_id, 60)["state"] for job_id in ids} == {"succeeded"}
    assert own_system.count("SELECT count(*) FROM effects") == 50
    own_system.scheduler.stop()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert "scheduler" in done.stderr
