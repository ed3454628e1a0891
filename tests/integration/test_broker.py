"""The broker package against a real RabbitMQ: delays, confirms, returns, acknowledgements."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from mainspring.broker import topology
from mainspring.broker.connection import Unroutable, connect, declare, declare_plain
from mainspring.broker.consumer import Consumer
from mainspring.broker.delivery import Delivery
from mainspring.broker.messages import JobBatch
from mainspring.broker.probe import look_at
from mainspring.broker.publisher import Publisher
from mainspring.broker.topology import Queue
from mainspring.devstack import Stack
from mainspring.domain.errors import BrokerUnavailable, Misconfigured
from mainspring.domain.job import JobRef

QUEUE = "a.b"


def batch(*ids: UUID) -> JobBatch:
    return JobBatch(QUEUE, tuple(JobRef(id_, 1) for id_ in ids or (uuid4(),)))


async def declare_all(url: str) -> None:
    link = await connect(url, "test")
    await declare(link, topology.fixed())
    await declare(link, topology.for_queue(QUEUE))
    await link.close()


@asynccontextmanager
async def consuming(url: str, name: str, prefetch: int = 100) -> AsyncIterator[asyncio.Queue[tuple[float, Delivery]]]:
    arrived: asyncio.Queue[tuple[float, Delivery]] = asyncio.Queue()
    ready = asyncio.Event()
    consumer = Consumer(
        url,
        "test",
        prefetch=prefetch,
        receive=lambda delivery: arrived.put_nowait((time.monotonic(), delivery)),
        on_state=lambda problem: ready.set() if problem is None else None,
    )
    consumer.consume([name])
    running = asyncio.create_task(consumer.run())
    await asyncio.wait_for(ready.wait(), 10)
    yield arrived
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@asynccontextmanager
async def publishing(url: str) -> AsyncIterator[Publisher]:
    publisher = Publisher(url, "test")
    yield publisher
    await publisher.close()


async def test_d05_a_short_delay_doesnt_wait_behind_a_long_one(vhost_url: str) -> None:
    await declare_all(vhost_url)
    long, short = batch(), batch()
    async with consuming(vhost_url, topology.due_queue(QUEUE)) as arrived, publishing(vhost_url) as publisher:
        started = time.monotonic()
        await publisher.publish_delayed(long, timedelta(seconds=6))
        await publisher.publish_delayed(short, timedelta(seconds=1))
        first_at, first = await asyncio.wait_for(arrived.get(), 20)
        second_at, second = await asyncio.wait_for(arrived.get(), 20)
    assert (first.batch, second.batch) == (short, long)
    assert 1.0 <= first_at - started < 2.0
    assert 6.0 <= second_at - started < 7.0


async def test_mixed_delays_all_arrive_none_early_and_soon_after(vhost_url: str) -> None:
    await declare_all(vhost_url)
    delays = {uuid4(): timedelta(milliseconds=37 * number % 3100) for number in range(200)}
    async with consuming(vhost_url, topology.due_queue(QUEUE), 500) as arrived, publishing(vhost_url) as publisher:
        sent: dict[UUID, float] = {}
        for id_, delay in delays.items():
            sent[id_] = time.monotonic()
            await publisher.publish_delayed(batch(id_), delay)
        late = []
        for _ in delays:
            at, delivery = await asyncio.wait_for(arrived.get(), 20)
            (ref,) = delivery.batch.refs
            late.append(at - sent[ref.id] - delays[ref.id].total_seconds())
    assert min(late) >= 0
    assert sorted(late)[len(late) // 2] < 0.5


async def test_d03_a_message_that_nothing_is_bound_to_raises(vhost_url: str) -> None:
    await declare_all(vhost_url)
    async with publishing(vhost_url) as publisher:
        with pytest.raises(Unroutable):
            await publisher.publish_work(JobBatch("nobody", (JobRef(uuid4(), 1),)))
        await publisher.publish_work(batch())


async def test_a_message_is_acknowledged_when_its_last_job_is_redundant_and_not_before(
    stack: Stack, vhost_url: str
) -> None:
    await declare_all(vhost_url)
    ids = [uuid4() for _ in range(3)]
    name = topology.work_queue(QUEUE)
    async with publishing(vhost_url) as publisher:
        await publisher.publish_work(batch(*ids))
    async with consuming(vhost_url, name) as arrived:
        _, delivery = await asyncio.wait_for(arrived.get(), 10)
        delivery.settle(delivery.batch.refs[:2])
    # The connection ended with one job still resting on the message: the broker has it again.
    async with consuming(vhost_url, name) as arrived:
        _, again = await asyncio.wait_for(arrived.get(), 10)
        assert again.batch == delivery.batch
        again.settle(again.batch.refs)
    async with asyncio.timeout(10):
        while any(queue["messages"] for queue in stack.rabbitmq.queues(vhost_url.rsplit("/", 1)[1])):
            await asyncio.sleep(0.1)


async def test_d06_a_queue_with_other_arguments_is_named_with_the_argument(vhost_url: str) -> None:
    link = await connect(vhost_url, "test")
    await declare(link, topology.fixed())
    await declare_plain(link, Queue(topology.due_queue(QUEUE)))
    with pytest.raises(Misconfigured) as caught:
        await declare(link, topology.for_queue(QUEUE))
    assert topology.due_queue(QUEUE) in str(caught.value)
    assert "x-" in str(caught.value)
    await link.close()


async def test_missing_queues_are_all_named(stack: Stack, vhost_url: str) -> None:
    await declare_all(vhost_url)
    names = [topology.due_queue(QUEUE), topology.work_queue(QUEUE), topology.DEAD_QUEUE]
    for name in names[:2]:
        stack.rabbitmq.delete_queue(vhost_url.rsplit("/", 1)[1], name)
    link = await connect(vhost_url, "test")
    found = await look_at(link, names)
    assert (found.missing, found.empty) == (names[:2], names[2:])
    await link.close()


async def test_a_publisher_connects_again_after_its_connection_was_cut(stack: Stack, vhost_url: str) -> None:
    await declare_all(vhost_url)
    async with publishing(vhost_url) as publisher:
        await publisher.publish_work(batch())
        stack.rabbitmq.close_connections(vhost_url.rsplit("/", 1)[1])
        async with asyncio.timeout(10):
            while True:
                with contextlib.suppress(BrokerUnavailable):
                    await publisher.publish_work(batch())
                    break
