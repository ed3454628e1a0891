"""Limits and pauses on real services, which die while they hold them."""

from __future__ import annotations

from typing import Any

from .system import System

STARTS = "SELECT extract(epoch FROM started_at)::float8 FROM mainspring.attempts ORDER BY started_at"


def starts(system: System) -> list[float]:
    """The instants at which attempts began, in seconds."""
    return [float(line) for line in system.query(STARTS).split()]


def most_in_a_span(instants: list[float], span: float) -> int:
    """The most of them that lie within a span of time."""
    most = first = 0
    for last, instant in enumerate(instants):
        while instant - instants[first] >= span:
            first += 1
        most = max(most, last - first + 1)
    return most


def limit(system: System, name: str, **body: Any) -> None:
    answer = system.http.put(f"/v1/limits/{name}", json=body)
    assert answer.status_code == 200, answer.text


def all_done(system: System, ids: list[str], seconds: float = 60) -> None:
    assert {system.final(job_id, seconds)["state"] for job_id in ids} == {"succeeded"}


def submit_many(system: System, task: str, payloads: list[dict[str, Any]]) -> list[str]:
    answer = system.http.post("/v1/jobs/batch", json={"jobs": [{"task": task, "payload": one} for one in payloads]})
    assert answer.status_code == 201, answer.text
    return [one["id"] for one in answer.json()["jobs"]]


def test_a_rate_is_never_exceeded_while_dispatchers_and_workers_die(system: System) -> None:
    system.fleet.start("dispatcher")
    system.fleet.start("scheduler", beat=1)
    workers = [system.worker(slots=20) for _ in range(2)]
    system.ready()
    limit(system, "r", kind="rate", most=7, period_seconds=1, queues=["fleet"])
    ids = submit_many(system, "fleet.add", [{"a": 1, "b": 1}] * 60)
    system.until(lambda: system.count("SELECT count(*) FROM mainspring.completions") >= 10)
    system.dispatcher.kill()
    workers[0].kill()
    all_done(system, ids)
    instants = starts(system)
    assert most_in_a_span(instants, 1.0) == 7
    # It is used as well: the last of 60 starts in the ninth second, the others of the killed worker a lease later.
    assert instants[50] - instants[0] < 9


def test_a_backlog_of_one_key_leaves_the_others_alone_and_each_key_runs_one_at_a_time(system: System) -> None:
    system.fleet.start("dispatcher")
    workers = [system.worker(slots=10) for _ in range(2)]
    system.ready()
    limit(system, "one-each", kind="concurrency", most=1, tasks=["fleet.nap_for"], per="who.id")
    payloads = [{"seconds": 0.1, "who": {"id": "a"}}] * 30 + [{"seconds": 0.1, "who": {"id": key}} for key in "bcdbcd"]
    ids = submit_many(system, "fleet.nap_for", payloads)
    all_done(system, ids[30:], 20)
    waiting = system.count("SELECT count(*) FROM mainspring.live_jobs WHERE state IN ('scheduled', 'blocked')")
    assert waiting > 10
    system.dispatcher.kill()
    workers[0].kill()
    all_done(system, ids)
    overlapping = """
        SELECT count(*) FROM mainspring.attempts AS one
        JOIN mainspring.attempts AS other
            ON one.job_id < other.job_id AND one.started_at < other.ended_at AND other.started_at < one.ended_at
        JOIN mainspring.job_details AS first ON first.id = one.job_id
        JOIN mainspring.job_details AS second ON second.id = other.job_id
        WHERE first.payload -> 'who' = second.payload -> 'who'
    """
    assert system.count(overlapping) == 0


def test_a_backlog_of_one_tenant_does_not_delay_the_ten_jobs_of_another(system: System) -> None:
    system.worker(slots=10)
    system.ready()
    system.http.put("/v1/queues/fleet", json={"fair_by": "who", "release_window": 40}).raise_for_status()
    submit_many(system, "fleet.nap_for", [{"seconds": 0.02, "who": "a"}] * 5000)
    system.until(lambda: system.count("SELECT count(*) FROM mainspring.completions") >= 20)
    all_done(system, submit_many(system, "fleet.nap_for", [{"seconds": 0.02, "who": "b"}] * 10), 20)
    waited = system.query(
        "SELECT max(extract(epoch FROM started_at - created_at)) FROM mainspring.jobs"
        """ WHERE payload ->> 'who' = 'b'"""
    )
    assert float(waited) < 2
    assert system.count("SELECT count(*) FROM mainspring.live_jobs WHERE state IN ('scheduled', 'blocked')") > 1000


def test_x01_while_a_queue_is_paused_nothing_starts_and_afterwards_everything_runs_once(system: System) -> None:
    worker = system.worker(slots=5)
    system.ready()
    dead = system.submit("fleet.bad")
    assert system.final(dead)["state"] == "dead"
    retrying = [system.submit("fleet.fail_late", {"delay": 6}) for _ in range(10)]
    system.until(lambda: system.count("SELECT count(*) FROM mainspring.live_jobs WHERE state = 'retrying'") == 10)
    running = [system.submit("fleet.nap", {"seconds": 2}) for _ in range(5)]
    for job_id in running:
        system.started(job_id)
    queued = [system.submit("fleet.nap", {"seconds": 0}) for _ in range(20)]
    scheduled = [system.submit("fleet.nap", {"seconds": 0}, delay_seconds=2) for _ in range(5)]
    system.http.put(
        "/v1/schedules/often",
        json={"task": "fleet.add", "payload": {"a": 1, "b": 1}, "every_seconds": 1, "overlap": "allow"},
    ).raise_for_status()
    paused = system.http.post("/v1/queues/fleet/pause", params={"note": "a deploy"}).json()
    assert (paused["paused"], paused["note"], paused["paused_by"]) == (True, "a deploy", "local")
    assert paused["paused_at"] is not None
    everything = [*retrying, *running, *queued, *scheduled]
    for _ in range(2):
        worker.stop()
        worker.start()
        worker.wait_ready()
    system.http.post(f"/v1/jobs/{dead}/retry").raise_for_status()
    all_done(system, running, 30)
    paused_at = system.query("SELECT paused_at FROM mainspring.queues WHERE name = 'fleet'")
    fired = "SELECT count(*) FROM mainspring.live_jobs WHERE schedule = 'often'"
    system.until(lambda: system.count(fired) >= 8)
    late = f"SELECT count(*) FROM mainspring.attempts WHERE started_at > '{paused_at}' AND outcome <> 'handed_back'"
    assert system.count(late) == 0
    live = system.count("SELECT count(*) FROM mainspring.live_jobs WHERE queue = 'fleet' AND schedule IS NULL")
    assert live == 36
    system.http.post("/v1/schedules/often/pause").raise_for_status()
    resumed = system.http.post("/v1/queues/fleet/resume").json()
    assert (resumed["paused"], resumed["paused_at"], resumed["note"]) == (False, None, None)
    all_done(system, everything)
    twice = (
        "SELECT count(*) FROM (SELECT job_id FROM mainspring.completions GROUP BY job_id HAVING count(*) > 1) AS two"
    )
    assert system.count(twice) == 0
    assert system.count("SELECT count(*) FROM mainspring.completions") >= len(everything)
