"""What is declared in the broker: rules that hold for every queue, exchange and binding."""

from __future__ import annotations

import pytest

from mainspring.broker import delay_ladder, topology
from mainspring.broker.topology import DEAD_QUEUE, PARKED_QUEUE, delay_queue, epoch_queue, fixed, for_queue

FIXED, BILLING = fixed(), for_queue("billing")
QUEUES = [*FIXED.queues, *BILLING.queues]
EXCHANGES = {exchange.name for exchange in FIXED.exchanges}
#: What the documentation of RabbitMQ 3.10 lists for quorum queues.
KNOWN_TO_3_10 = {
    "x-queue-type",
    "x-delivery-limit",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-dead-letter-strategy",
    "x-overflow",
    "x-message-ttl",
    "x-single-active-consumer",
}

every_queue = pytest.mark.parametrize("queue", QUEUES, ids=[queue.name for queue in QUEUES])


@every_queue
def test_every_queue_is_a_quorum_queue_with_an_explicit_delivery_limit(queue):
    assert queue.arguments["x-queue-type"] == "quorum"
    assert queue.arguments["x-delivery-limit"] == 20


@every_queue
def test_no_queue_needs_more_than_rabbitmq_3_10(queue):
    assert queue.arguments.keys() <= KNOWN_TO_3_10


@every_queue
def test_what_a_queue_sets_aside_goes_to_an_exchange_that_exists(queue):
    if queue.name == PARKED_QUEUE:
        assert "x-dead-letter-exchange" not in queue.arguments
        return
    assert queue.arguments["x-dead-letter-exchange"] in EXCHANGES
    # At-least-once dead-lettering is refused by the broker without this overflow.
    assert queue.arguments["x-dead-letter-strategy"] == "at-least-once"
    assert queue.arguments["x-overflow"] == "reject-publish"


def test_the_epoch_queue_is_on_as_many_nodes_as_the_others():
    assert epoch_queue("abc").arguments["x-queue-type"] == "quorum"
    assert epoch_queue("abc").name != epoch_queue("abd").name


def test_every_name_carries_the_version():
    names = {queue.name for queue in (*QUEUES, epoch_queue("abc"))} | EXCHANGES
    assert {name for name in names if f".v{topology.VERSION}" not in name} == set()


def test_no_name_is_declared_twice():
    assert len({queue.name for queue in QUEUES}) == len(QUEUES)
    assert len(EXCHANGES) == len(FIXED.exchanges)


def test_queues_with_odd_names_never_collide_with_others():
    names = ["v1", "1", "13", "v1.1", "due", "delay", "delay.v1.3", "dead.v1", "parked", "a.b", "a", "b"]
    declared = [queue.name for name in names for queue in for_queue(name).queues]
    assert len({*declared, *(queue.name for queue in FIXED.queues)}) == 2 * len(names) + len(FIXED.queues)


def test_every_binding_joins_things_that_are_declared():
    queues = {queue.name for queue in QUEUES}
    for binding in (*FIXED.bindings, *BILLING.bindings):
        assert binding.source in EXCHANGES
        assert binding.target in (EXCHANGES if binding.to_exchange else queues)


def test_every_queue_is_reached_by_a_binding():
    bound = {binding.target for binding in (*FIXED.bindings, *BILLING.bindings) if not binding.to_exchange}
    assert bound == {queue.name for queue in QUEUES}


def test_only_the_ladder_expires_messages_each_level_twice_as_late():
    expiring = {queue.name: queue.arguments["x-message-ttl"] for queue in QUEUES if "x-message-ttl" in queue.arguments}
    assert expiring == {delay_queue(level): 100 * 2**level for level in range(delay_ladder.LEVELS)}


def test_a_level_hands_on_its_messages_with_their_key_unchanged():
    for queue in FIXED.queues:
        if queue.name.startswith("mainspring.delay."):
            assert "x-dead-letter-routing-key" not in queue.arguments


def test_work_that_is_set_aside_arrives_at_the_dead_queue_under_its_queue_name():
    for queue in BILLING.queues:
        assert queue.arguments["x-dead-letter-exchange"] == topology.DEAD
        assert queue.arguments["x-dead-letter-routing-key"] == "billing"
    dead = next(queue for queue in FIXED.queues if queue.name == DEAD_QUEUE)
    assert dead.arguments["x-dead-letter-exchange"] == topology.PARKED


def test_only_due_queues_have_a_single_active_consumer():
    due, work = BILLING.queues
    assert due.arguments["x-single-active-consumer"] is True
    assert "x-single-active-consumer" not in work.arguments


def test_every_declared_name_and_key_fits_amqp():
    longest = for_queue("x" * 63)
    assert max(len(queue.name) for queue in longest.queues) <= 255
    assert len(delay_ladder.routing_key(delay_ladder.MOST_TICKS, "x" * 63)) <= 255
