"""The ladder walked as the broker would, over the very data that is declared in it."""

from __future__ import annotations

import re
from collections import defaultdict
from datetime import timedelta
from functools import cache
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.broker import topology
from mainspring.broker.delay_ladder import MOST_TICKS, TICK
from mainspring.broker.messages import JobBatch
from mainspring.broker.publisher import Publisher
from mainspring.domain.job import NAME, JobRef

STEADY = settings(derandomize=True, deadline=None, database=None)
NAMES = ["default", "a", "0", "1", "1.0.1", "0.0.0", "a.b", "a..b", "a.", "b.a", "0.a", ".".join("1" * 14), "x" * 63]
TTL_OF_A_TICK = TICK // timedelta(milliseconds=1)


@cache
def matcher(pattern):
    """AMQP's topic rule: * is one word, # any number of them (it is last wherever it is used)."""
    words = [r"[^.]*" if word == "*" else re.escape(word) for word in pattern.removesuffix(".#").split(".")]
    assert "\\#" not in words
    return re.compile(r"\.".join(words) + (r"(\..*)?" if pattern.endswith(".#") else "")).fullmatch


class Broker:
    """The declared exchanges, queues and bindings, and how a message moves through them."""

    def __init__(self, names):
        parts = [topology.fixed(), *(topology.for_queue(name) for name in names)]
        self.kinds = {one.name: one.kind for part in parts for one in part.exchanges}
        self.queues = {one.name: one.arguments for part in parts for one in part.queues}
        self.bindings = defaultdict(list)
        for part in parts:
            for one in part.bindings:
                self.bindings[one.source].append(one)

    def arrivals(self, exchange, key):
        """Every queue that a message published to ``exchange`` ends in, with the ticks it has waited."""
        assert self.kinds[exchange] == "topic"
        for binding in self.bindings[exchange]:
            if matcher(binding.key)(key):
                onward = self.arrivals if binding.to_exchange else self.waits
                yield from onward(binding.target, key)

    def waits(self, queue, key):
        ttl = self.queues[queue].get("x-message-ttl")
        if ttl is None:
            yield queue, 0
            return
        key = self.queues[queue].get("x-dead-letter-routing-key", key)
        for end, ticks in self.arrivals(self.queues[queue]["x-dead-letter-exchange"], key):
            yield end, ticks + ttl // TTL_OF_A_TICK


class Recorded(Publisher):
    """Says where a message would be published, and with which key."""

    async def _publish(self, exchange, key, _body):
        self.sent = exchange, key


def sent(name, delay=None):
    publisher = Recorded("", "test")
    batch = JobBatch(name, (JobRef(UUID(int=1), 1),))
    going = publisher.publish_due(batch) if delay is None else publisher.publish_delayed(batch, delay)
    try:
        going.send(None)
    except StopIteration:
        return publisher.sent
    raise AssertionError("it waits for something")


def test_d05_every_number_of_ticks_leaves_at_the_due_queue_after_exactly_so_many():
    broker = Broker(NAMES)
    for ticks in range(MOST_TICKS + 1):
        name = NAMES[ticks % len(NAMES)]
        assert list(broker.arrivals(*sent(name, ticks * TICK))) == [(topology.due_queue(name), ticks)]


def test_a_message_without_a_delay_reaches_its_due_queue_at_once():
    broker = Broker(NAMES)
    for name in NAMES:
        assert list(broker.arrivals(*sent(name))) == [(topology.due_queue(name), 0)]


@STEADY
@given(
    st.lists(
        st.from_regex(NAME, fullmatch=True) | st.from_regex(r"[01](\.[01]){0,20}", fullmatch=True),
        min_size=1,
        max_size=6,
        unique=True,
    ),
    st.timedeltas(timedelta(0), timedelta(minutes=15)),
)
def test_any_delay_of_any_queue_reaches_that_queue_alone_and_never_early(names, delay):
    broker = Broker(names)
    for name in names:
        ((end, ticks),) = broker.arrivals(*sent(name, delay))
        assert end == topology.due_queue(name)
        assert timedelta(0) <= ticks * TICK - delay < TICK


def test_d03_a_message_for_a_queue_that_is_not_declared_reaches_none():
    broker = Broker(["a", "a.b"])
    for name in ("b", "b.a", "a.b.c", "0.a"):
        assert list(broker.arrivals(*sent(name, timedelta(seconds=5)))) == []


def test_d03_a_work_message_reaches_the_work_queue_of_its_own_name():
    publisher = Recorded("", "test")
    for name in NAMES:
        going = publisher.publish_work(JobBatch(name, (JobRef(UUID(int=1), 1),)))
        try:
            going.send(None)
        except StopIteration:
            exchange, key = publisher.sent
        bound = [one for one in Broker(NAMES).bindings[exchange] if one.key == key]
        assert [one.target for one in bound] == [topology.work_queue(name)]
