"""Runner processes under handlers that block, and runners that have done enough."""

from __future__ import annotations

import os
import signal
import time

import pytest

from .system import System


@pytest.fixture
def system(shared_system: System) -> System:
    """One for all tests of this module but those that ask for a fresh one."""
    return shared_system


def test_w01_a_blocked_event_loop_starves_neither_heartbeat_nor_neighbours(system: System) -> None:
    worker = system.worker(slots=20, runners=1)
    system.ready()
    # Two leases long: a heartbeat that shared the loop would lose the job.
    sleeper = system.submit("fleet.sleeps_on_the_loop", {"seconds": 9})
    system.started(sleeper)
    began = time.monotonic()
    others = [system.submit("fleet.add", {"a": number, "b": 1}) for number in range(10)]
    assert [system.final(job_id)["result"] for job_id in others] == list(range(1, 11))
    assert time.monotonic() - began < 5
    assert {system.job(job_id)["attempts_used"] for job_id in others} == {1}
    job = system.final(sleeper)
    assert (job["state"], system.outcomes(sleeper)) == ("succeeded", ["succeeded"])
    assert system.count("SELECT count(*) FROM effects") == 1
    # The log names the job and the line that blocks.
    (line,) = [line for line in worker.log_tail(400).splitlines() if "blocks its runner" in line]
    assert sleeper in line
    assert "time.sleep(seconds)" in line


def test_w01_what_was_claimed_together_with_the_blocking_job_goes_on_too(system: System) -> None:
    system.worker(slots=20, runners=1)
    ids = [
        system.submit("fleet.sleeps_on_the_loop", {"seconds": 8}),
        *(system.submit("fleet.add", {"a": number, "b": 1}) for number in range(10)),
    ]
    system.ready()
    began = time.monotonic()
    others = [system.final(job_id) for job_id in ids[1:]]
    assert time.monotonic() - began < 6
    assert {(job["state"], job["attempts_used"]) for job in others} == {("succeeded", 1)}
    assert system.final(ids[0])["attempts_used"] == 1


def test_w01_a_neighbour_whose_time_runs_out_meanwhile_pays_nothing(system: System) -> None:
    system.worker(slots=20, runners=1, kill_grace=0.5)
    system.ready()
    neighbour = system.submit("fleet.impatient")
    system.started(neighbour)
    blocker = system.submit("fleet.sleeps_on_the_loop", {"seconds": 7})
    job = system.final(neighbour, 40)
    assert (job["state"], job["attempts_used"], system.outcomes(neighbour)[-1]) == ("succeeded", 1, "succeeded")
    # The blocking job was interrupted for it, uncounted, and then had a process to itself.
    job = system.final(blocker, 40)
    assert (job["state"], job["attempts_used"]) == ("succeeded", 1)
    assert system.count("SELECT count(*) FROM effects") == 1


def test_a_job_that_is_cancelled_while_its_runner_is_blocked_never_begins(system: System) -> None:
    system.worker(slots=5, runners=1)
    system.ready()
    blocker = system.submit("fleet.sleeps_on_the_loop", {"seconds": 5})
    system.started(blocker)
    waiting = system.submit("fleet.nap", {"seconds": 30})
    system.until(lambda: system.job(waiting)["state"] == "running", 5)
    system.http.post(f"/v1/jobs/{waiting}/cancel")
    assert system.final(waiting, 10)["state"] == "cancelled"
    assert system.count(f"SELECT count(*) FROM ledger WHERE job = '{waiting}'") == 0
    # Nobody's process was killed for it.
    assert system.outcomes(system.final(blocker)["id"]) == ["succeeded"]


def test_what_has_not_begun_in_a_runner_that_dies_runs_elsewhere_and_pays_nothing(system: System) -> None:
    system.worker(slots=5, runners=1, stall=5)
    system.ready()
    blocker = system.submit("fleet.sleeps_on_the_loop", {"seconds": 4})
    system.started(blocker)
    waiting = [system.submit("fleet.add", {"a": 1, "b": 1}) for _ in range(3)]
    running = "SELECT count(*) FROM mainspring.live_jobs WHERE state = 'running'"
    system.until(lambda: system.count(running) == 4, 3)
    os.kill(system.count(f"SELECT pid FROM ledger WHERE job = '{blocker}'"), signal.SIGKILL)
    for job_id in waiting:
        assert system.outcomes(system.final(job_id)["id"]) == ["succeeded"]
    assert system.outcomes(system.final(blocker)["id"]) == ["worker_lost", "succeeded"]


def test_a_handler_that_is_killed_while_it_blocks_says_where_it_was(system: System) -> None:
    system.worker(slots=5, runners=1, kill_grace=2)
    system.ready()
    job = system.final(system.submit("fleet.blocks_the_loop"))
    assert (job["state"], job["error"]["type"]) == ("dead", "Timeout")
    assert "in blocks_the_loop" in job["error"]["traceback"]


def test_a_runner_is_replaced_after_so_many_jobs_and_loses_none(system: System) -> None:
    system.worker(slots=4, runners=1, recycle_jobs=10)
    system.ready()
    pids = set()
    while len(pids) < 3:
        jobs = [system.final(job_id) for job_id in [system.submit("fleet.pid") for _ in range(20)]]
        assert {(job["state"], job["attempts_used"]) for job in jobs} == {("succeeded", 1)}
        pids |= {job["result"] for job in jobs}


def test_a_runner_is_replaced_once_it_holds_too_much_memory(system: System) -> None:
    system.worker(slots=4, runners=1, recycle_mib=300)
    system.ready()
    first = system.final(system.submit("fleet.pid"))["result"]
    assert system.final(system.submit("fleet.pid", {"mib": 300}))["result"] == first
    system.until(lambda: system.final(system.submit("fleet.pid"))["result"] != first, 20, "another runner")
