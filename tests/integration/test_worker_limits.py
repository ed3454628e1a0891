"""What a worker doesn't take (its own limits, a task that it doesn't know) another one has."""

from __future__ import annotations

import itertools
import time

from .system import System

RUNNING = "SELECT count(*) FROM mainspring.live_jobs WHERE state = 'running' AND queue = '{}'"


def running(system: System, queue: str) -> int:
    return system.count(RUNNING.format(queue))


def test_a_queue_has_its_share_of_a_worker_and_others_have_the_rest(system: System) -> None:
    system.worker(slots=6, queues="fleet,other", queue_slots="fleet=2", hold=0.3)
    system.ready()
    first = [system.submit("fleet.nap", {"seconds": 60}) for _ in range(5)]
    system.until(lambda: running(system, "fleet") == 2, what="its share runs")
    second = [system.submit("fleet.nap", {"seconds": 60}, queue="other") for _ in range(4)]
    system.until(lambda: running(system, "other") == 4, what="the other queue has the rest")
    assert running(system, "fleet") == 2
    # Another worker takes what this one holds back.
    system.worker(slots=6, queues="fleet,other")
    system.until(lambda: running(system, "fleet") == 5, what="the others run elsewhere")
    for job_id in (*first, *second):
        system.http.post(f"/v1/jobs/{job_id}/cancel").raise_for_status()
    for job_id in (*first, *second):
        assert system.final(job_id)["state"] == "cancelled"


def test_a_share_that_comes_free_is_used_again(system: System) -> None:
    system.worker(slots=4, queues="fleet", queue_slots="fleet=1", hold=0.2)
    system.ready()
    jobs = [system.submit("fleet.nap", {"seconds": 0.4}) for _ in range(5)]
    for job_id in jobs:
        assert system.final(job_id)["state"] == "succeeded"
    noted = system.query("SELECT string_agg(what, ' ' ORDER BY at) FROM ledger")
    assert noted.split() == ["start", "end"] * 5


def test_a_worker_starts_no_more_in_a_second_than_it_may(system: System) -> None:
    system.worker(slots=50, starts_per_second=10)
    system.ready()
    jobs = [system.submit("fleet.add", {"a": 1, "b": 1}) for _ in range(25)]
    for job_id in jobs:
        assert system.final(job_id)["state"] == "succeeded"
    seconds = float(
        system.query("SELECT extract(epoch FROM max(started_at) - min(started_at)) FROM mainspring.finished_jobs")
    )
    assert seconds > 24 / 10 * 0.9


def test_while_memory_is_short_a_worker_takes_nothing_and_another_does(system: System) -> None:
    system.worker(min_free_mib=1_000_000_000, hold=0.3)
    system.ready()
    [short] = system.until(lambda: system.http.get("/v1/workers").json()["items"], what="it is known")
    job_id = system.submit("fleet.add", {"a": 1, "b": 2})
    system.until(lambda: system.job(job_id)["state"] == "enqueued", what="it waits in the broker")
    system.worker().wait_ready()
    job = system.final(job_id)
    assert job["result"] == 3
    assert job["worker"] != short["id"]


def test_what_no_worker_knows_is_said_and_runs_as_soon_as_one_comes_that_does(system: System) -> None:
    system.fleet.start("worker", "crash_tasks", queues="fleet").wait_ready()
    system.ready()
    job_id = system.submit("fleet.add", {"a": 1, "b": 2}, queue="fleet")
    system.until(lambda: system.job(job_id)["reason"] == "no_worker", what="it came back")
    kinds = [one["kind"] for one in system.http.get(f"/v1/jobs/{job_id}/why").json()["blockers"]]
    assert kinds == ["returned", "no_worker"]
    system.worker()
    assert system.final(job_id, seconds=20)["result"] == 3
    # The first worker may still be asked now and then: from now on another one knows the task.
    reasons = [event["details"]["reason"] for event in system.job(job_id)["events"]]
    assert reasons == ["no_worker", *["unknown_task"] * (len(reasons) - 1)]


#: The most slots that handlers took at one moment, by their own notes.
TAKEN = """
    SELECT max(taken) FROM (
        SELECT sum(
            CASE finished_jobs.task WHEN 'fleet.heavy' THEN 3 ELSE 1 END
            * CASE ledger.what WHEN 'start' THEN 1 ELSE -1 END
        ) OVER (ORDER BY ledger.at) AS taken
        FROM ledger JOIN mainspring.finished_jobs ON finished_jobs.id = ledger.job
    ) AS moments
"""


def test_a_job_that_takes_several_slots_is_not_passed_by_for_ever(system: System) -> None:
    system.worker(slots=3, hold=0.05)
    system.ready()
    system.http.put("/v1/queues/fleet", json={"release_window": 10}).raise_for_status()
    seconds = itertools.cycle([1.0, 1.5, 1.9])  # so that they don.t end together
    first = [system.submit("fleet.nap", {"seconds": next(seconds)}) for _ in range(4)]
    heavy = system.submit("fleet.heavy", {"seconds": 0.3})
    # As long as there are others, however many: it would wait for the last of them.
    more = [system.submit("fleet.nap", {"seconds": next(seconds)}) for _ in range(3)]
    while system.job(heavy)["state"] != "succeeded":
        more.append(system.submit("fleet.nap", {"seconds": next(seconds)}))
        assert len(more) < 100, "it never had its turn"
        time.sleep(0.4)  # more than the worker can run
    for job_id in (*first, *more):
        assert system.final(job_id)["state"] == "succeeded"
    assert system.count(TAKEN) == 3


def test_a_job_takes_no_more_slots_than_there_are(system: System) -> None:
    system.worker(slots=2, queues="fleet", hold=0.3)
    system.ready()
    jobs = [system.submit("fleet.heavy", {"seconds": 0.1}) for _ in range(4)]
    for job_id in jobs:
        assert system.final(job_id)["state"] == "succeeded"
    assert system.count(TAKEN) == 3, "one at a time"


def test_a_job_takes_no_more_slots_than_its_queue_has_here(system: System) -> None:
    system.worker(slots=6, queues="fleet", queue_slots="fleet=2", hold=0.3)
    system.ready()
    jobs = [system.submit(task, {"seconds": 0.1}) for task in ("fleet.heavy", "fleet.nap") * 4]
    for job_id in jobs:
        assert system.final(job_id)["state"] == "succeeded"


def bounces(system: System) -> int:
    return system.count("SELECT count(*) FROM mainspring.events WHERE event = 'return'")


def test_a_task_runs_on_workers_with_its_labels_alone_and_others_don_t_even_serve_its_queue(system: System) -> None:
    system.worker(labels="region=eu")
    system.ready()
    job_id = system.submit("fleet.on_gpu")
    [why] = [
        one
        for one in system.until(lambda: system.http.get(f"/v1/jobs/{job_id}/why").json()["blockers"])
        if one["kind"] == "no_worker"
    ]
    assert why["message"] == "no worker that lives serves queue gpu; task fleet.on_gpu requires the labels gpu"
    gpu = system.worker(labels="gpu,region=eu")
    assert system.final(job_id)["result"] == gpu.pid
    assert bounces(system) == 0
    plain, labelled = system.http.get("/v1/workers").json()["items"]
    assert (plain["labels"], labelled["labels"]) == (["region=eu"], ["gpu", "region=eu"])
    assert ("gpu" in plain["queues"], "gpu" in labelled["queues"]) == (False, True)
    assert ("fleet.on_gpu" in plain["tasks"], "fleet.on_gpu" in labelled["tasks"]) == (False, True)


def test_in_a_queue_that_others_serve_it_comes_to_those_that_have_them(system: System) -> None:
    for _ in range(2):
        system.worker(queues="fleet")
    gpu = system.worker(queues="fleet", labels="gpu")
    system.ready()
    jobs = [system.submit("fleet.on_gpu", queue="fleet") for _ in range(6)]
    for job_id in jobs:
        assert system.final(job_id, 60)["result"] == gpu.pid
    # What others got first came back later each time.
    assert bounces(system) < 30
