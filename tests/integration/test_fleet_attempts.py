"""Attempts on real processes: results, retries, timeouts, deaths, cancels, stops."""

from __future__ import annotations

import time

import pytest

from .system import System


@pytest.fixture
def system(shared_system: System) -> System:
    """One for all tests of this module but those that ask for a fresh one."""
    return shared_system


def test_a_job_goes_through_all_five_services_and_its_result_comes_back(system: System) -> None:
    system.worker()
    system.ready()
    job = system.final(system.submit("fleet.add", {"a": 2, "b": 3}))
    assert (job["state"], job["result"], job["attempt"], job["attempts_used"]) == ("succeeded", 5, 1, 1)
    assert [attempt["outcome"] for attempt in job["attempts"]] == ["succeeded"]


def test_a_failure_is_tried_again_after_its_delay_and_the_history_shows_it(system: System) -> None:
    system.worker()
    system.ready()
    job = system.final(system.submit("fleet.fail", {"times": 2}))
    assert (job["state"], job["result"]) == ("succeeded", 3)
    assert [attempt["outcome"] for attempt in job["attempts"]] == ["failed", "failed", "succeeded"]
    assert [event["event"] for event in job["events"]] == ["retry", "retry"]


def test_a_used_up_budget_and_a_permanent_failure_end_as_dead_letters_until_redriven(fresh_system: System) -> None:
    fresh_system.worker()
    fresh_system.ready()
    exhausted = fresh_system.final(fresh_system.submit("fleet.fail", {"times": 3}))
    permanent = fresh_system.final(fresh_system.submit("fleet.bad"))
    assert (exhausted["state"], exhausted["reason"], exhausted["attempts_used"]) == ("dead", "exhausted", 3)
    assert (permanent["state"], permanent["reason"], permanent["attempts_used"]) == ("dead", "permanent", 1)
    assert permanent["error"]["message"] == "no such customer"
    fresh_system.until(
        lambda: not fresh_system.count("SELECT count(*) FROM mainspring.dead_letters WHERE alerted_at IS NULL")
    )

    assert fresh_system.http.post(f"/v1/dead-letters/{exhausted['id']}/redrive").status_code == 200
    again = fresh_system.final(exhausted["id"])
    assert (again["state"], again["result"], again["attempts_used"]) == ("succeeded", 4, 1)
    assert "redrive" in [event["event"] for event in again["events"]]
    assert fresh_system.count("SELECT count(*) FROM mainspring.dead_letters") == 1
    assert fresh_system.http.post(f"/v1/dead-letters/{exhausted['id']}/redrive").status_code == 404


@pytest.mark.parametrize("task", ["fleet.stubborn", "fleet.spin"])
def test_a_deadline_is_enforced_and_the_neighbour_pays_nothing(system: System, task: str) -> None:
    system.worker(kill_grace=1)
    system.ready()
    neighbour = system.submit("fleet.slow_at_first", {"seconds": 8})
    system.started(neighbour)
    job = system.final(system.submit(task))
    assert (job["state"], [attempt["outcome"] for attempt in job["attempts"]]) == ("dead", ["timed_out"])
    other = system.final(neighbour)
    assert other["state"] == "succeeded"
    assert [attempt["outcome"] for attempt in other["attempts"]] == ["handed_back", "succeeded"]
    assert other["attempts_used"] == 1
    assert system.count("SELECT count(*) FROM effects") == 1


def test_a_job_that_kills_its_runner_is_buried_with_the_signal_and_runs_alone(system: System) -> None:
    worker = system.worker()
    system.ready()
    job = system.final(system.submit("fleet.suicide"))
    assert (job["state"], job["reason"]) == ("dead", "exhausted")
    assert [attempt["outcome"] for attempt in job["attempts"]] == ["worker_lost", "worker_lost"]
    assert "SIGKILL" in job["error"]["message"]
    assert worker.is_running
    assert system.final(system.submit("fleet.add", {"a": 1, "b": 1}))["result"] == 2


def test_long_jobs_fill_all_slots_though_each_has_a_message_of_its_own(fresh_system: System) -> None:
    fresh_system.worker(slots=7, prefetch=2, stop_grace=0.5)
    fresh_system.ready()
    for _ in range(7):
        fresh_system.started(fresh_system.submit("fleet.nap", {"seconds": 20}), seconds=5)


def test_a_waiting_job_is_cancelled_at_once_and_a_running_one_within_a_beat(fresh_system: System) -> None:
    fresh_system.worker(stop_grace=0.5)
    fresh_system.ready()
    later = fresh_system.submit("fleet.add", {"a": 1, "b": 1}, delay_seconds=3600)
    assert fresh_system.http.post(f"/v1/jobs/{later}/cancel").json()["state"] == "cancelled"
    running = fresh_system.submit("fleet.nap", {"seconds": 60})
    fresh_system.started(running)
    assert fresh_system.http.post(f"/v1/jobs/{running}/cancel").json()["state"] == "running"
    job = fresh_system.final(running, 10)
    assert (job["state"], [attempt["outcome"] for attempt in job["attempts"]]) == ("cancelled", ["cancelled"])
    assert fresh_system.http.post(f"/v1/jobs/{running}/retry").status_code == 200


def test_a_running_job_hears_of_its_cancel_before_the_next_beat(system: System) -> None:
    system.worker(lease=120, beat=60, margin=5)
    system.ready()
    job_id = system.submit("fleet.nap", {"seconds": 50})
    system.started(job_id)
    began = time.monotonic()
    system.http.post(f"/v1/jobs/{job_id}/cancel")
    assert system.final(job_id)["state"] == "cancelled"
    assert time.monotonic() - began < 5


def test_sigterm_hands_jobs_back_uncounted_and_exits_0(system: System) -> None:
    worker = system.worker(stop_grace=0.5)
    system.ready()
    ids = [system.submit("fleet.slow_at_first") for _ in range(4)]
    for job_id in ids:
        system.started(job_id)
    assert worker.stop() == 0
    for job_id in ids:
        job = system.job(job_id)
        assert (job["state"] in {"scheduled", "enqueued"}, job["attempts_used"]) == (True, 0)
        assert system.outcomes(job_id) == ["handed_back"]
    system.worker()
    for job_id in ids:
        job = system.final(job_id)
        assert (job["state"], job["attempts_used"], job["attempt"]) == ("succeeded", 1, 2)
    assert system.count("SELECT count(*) FROM effects") == 4


def test_every_service_stops_with_0_at_sigterm(fresh_system: System) -> None:
    fresh_system.worker()
    fresh_system.ready()
    assert {one.name: one.stop() for one in fresh_system.fleet.services} == dict.fromkeys(
        ("api", "scheduler", "dispatcher", "dlq_handler", "worker"), 0
    )
