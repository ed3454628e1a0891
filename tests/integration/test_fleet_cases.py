"""Cases from the field on real processes: deadlines that must hold, poison among the innocent, stops at any moment."""

from __future__ import annotations

import os
import random
import signal
import time

import pytest

from .system import System

WHATEVER_IT_DOES = ["stubborn", "spin", "blocks_the_loop", "blocks_in_a_read", "cleans_up_for_ever"]


@pytest.fixture
def system(shared_system: System) -> System:
    """One for all tests of this module but those that ask for a fresh one."""
    return shared_system


@pytest.mark.parametrize("task", WHATEVER_IT_DOES)
def test_w04_a_deadline_is_enforced_whatever_the_handler_does(system: System, task: str) -> None:
    system.worker(slots=1, kill_grace=0.5)
    system.ready()
    job = system.final(system.submit(f"fleet.{task}"))
    assert (job["state"], [attempt["outcome"] for attempt in job["attempts"]]) == ("dead", ["timed_out"])
    took = system.count(
        "SELECT round(1000 * extract(epoch FROM ended_at - started_at)) FROM mainspring.attempts"
        f" WHERE job_id = '{job['id']}'"
    )
    assert 1000 <= took < 3000
    # Its slot, the only one, is free again, and a late answer changes nothing.
    again = system.final(system.submit("fleet.add", {"a": 1, "b": 2}))
    assert again["result"] == 3
    assert system.job(job["id"]) == job


def test_d07_a_job_that_kills_its_process_pays_alone(system: System) -> None:
    system.worker(slots=10, runners=1)
    system.ready()
    killer = system.submit("fleet.killer")
    healthy = [system.submit("fleet.effect", {"seconds": 2}) for _ in range(9)]
    job = system.final(killer, 60)
    assert (job["state"], job["reason"], job["attempts_used"]) == ("dead", "exhausted", 3)
    assert [attempt["outcome"] for attempt in job["attempts"]] == ["worker_lost"] * 3
    for job_id in healthy:
        neighbour = system.final(job_id, 60)
        assert neighbour["state"] == "succeeded"
        # Those that shared its process the first time lost that attempt; from then on it ran alone.
        assert neighbour["attempts_used"] <= 2
    assert system.count("SELECT count(*) FROM effects") == 9


def test_a_handler_whose_connection_is_cut_off_fails_and_is_tried_again(system: System) -> None:
    system.worker()
    system.ready()
    job_id = system.submit("fleet.cut_off")
    assert system.final(job_id)["result"] == 2
    assert system.outcomes(job_id) == ["failed", "succeeded"]


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_w03_stops_at_any_moment_lose_nothing_and_count_nothing(fresh_system: System) -> None:
    dice = random.Random(3)
    one, other = fresh_system.worker(slots=8, stop_grace=1), fresh_system.worker(slots=8, stop_grace=1)
    fresh_system.ready()
    ids = [fresh_system.submit("fleet.effect", {"seconds": round(dice.uniform(0, 2), 2)}) for _ in range(100)]
    for number in range(12):
        time.sleep(dice.uniform(0, 0.6))
        worker = one if number % 2 else other
        began = time.monotonic()
        how = number % 3
        if how == 1:
            os.kill(worker.pid, signal.SIGTERM)  # and once more below
        if how == 2:
            os.killpg(worker.pid, signal.SIGTERM)
        assert worker.stop() == 0
        # A second of grace, two for handlers that don't obey, and what it takes to hand back.
        assert time.monotonic() - began < 6
        worker.start()
        worker.wait_ready()
    for job_id in ids:
        job = fresh_system.final(job_id, 60)
        counted = [attempt for attempt in job["attempts"] if attempt["outcome"] != "handed_back"]
        assert (job["state"], job["attempts_used"]) == ("succeeded", len(counted))
        assert [attempt["outcome"] for attempt in counted] == ["succeeded"]
    assert fresh_system.count("SELECT count(*) FROM effects") == 100
    assert fresh_system.count("SELECT count(*) FROM mainspring.attempts WHERE outcome = 'handed_back'") > 0
