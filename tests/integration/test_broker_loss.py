"""The broker away for a while, and the broker wiped: on servers of this test's own."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from mainspring.devstack import Stack

from .own_system import open_own_system
from .system import System


@pytest.fixture
def own_system(request: pytest.FixtureRequest) -> Iterator[System]:
    """A whole system on servers that nobody else uses; the parameter is more lines of rabbitmq.conf."""
    with open_own_system(getattr(request, "param", None)) as system:
        yield system


def test_d01_jobs_are_accepted_while_the_broker_is_away_and_all_finish(own_system: System) -> None:
    own_system.worker()
    own_system.ready()
    stack: Stack = own_system.stack
    own_system.final(own_system.submit("fleet.effect"))
    time.sleep(2)  # a quorum queue that was declared just before a kill never comes back (RabbitMQ 3.10)
    stack.rabbitmq.kill()
    ids = [own_system.submit("fleet.effect") for _ in range(200)]
    time.sleep(3)
    stack.rabbitmq.start()
    assert {own_system.final(job_id, 60)["state"] for job_id in ids} == {"succeeded"}
    assert own_system.count("SELECT count(*) FROM effects") == 201
    own_system.until(lambda: not own_system.count("SELECT count(*) FROM mainspring.outbox"))


def test_a_wiped_broker_loses_no_job_and_runs_none_twice(own_system: System) -> None:
    own_system.ready()
    ids = [own_system.submit("fleet.effect") for _ in range(100)]
    enqueued = "SELECT count(*) FROM mainspring.live_jobs WHERE state = 'enqueued'"
    own_system.until(lambda: own_system.count(enqueued) == 100)
    own_system.stack.rabbitmq.wipe()
    own_system.worker(slots=20)
    assert {own_system.final(job_id, 60)["state"] for job_id in ids} == {"succeeded"}
    assert own_system.count("SELECT count(*) FROM effects") == 100


@pytest.mark.slow
@pytest.mark.timeout(170)
@pytest.mark.parametrize("own_system", [{"consumer_timeout": "5000"}], indirect=True, ids=["5 s"])
def test_d02_a_job_that_outlasts_the_brokers_delivery_timeout_runs_once(own_system: System) -> None:
    # RabbitMQ looks for overdue deliveries once a minute: the job must outlast that too.
    own_system.worker(ack_handover=1, slots=10)
    own_system.ready()
    later = own_system.submit("fleet.add", {"a": 1, "b": 1}, delay_seconds=7200)
    long = own_system.submit("fleet.nap", {"seconds": 70})
    short = [own_system.submit("fleet.add", {"a": 1, "b": 1}) for _ in range(9)]
    for job_id in [long, *short]:
        job = own_system.final(job_id, 100)
        assert (job["state"], job["attempt"], job["attempts_used"]) == ("succeeded", 1, 1)
    assert own_system.job(later)["state"] == "scheduled"
    assert own_system.count("SELECT count(*) FROM mainspring.attempts") == 10
