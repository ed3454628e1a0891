"""Flow: what limits cost when none binds, what a backlog behind a rate costs, and what it does to another tenant."""

from __future__ import annotations

import statistics
import time
from typing import Any

from .harness import System, per_job, whole_system

JOBS = 20_000
RUNS = 3
SLOTS = 400
BACKLOG = 100_000
IDLE_SECONDS = 10.0
#: Longer than autovacuum's nap, so that its work for what happens meanwhile is counted.
WATCHED_SECONDS = 70.0
#: Of every kind, on the queue, the task and a key: none of them is ever reached.
LIMITS: dict[str, dict[str, Any]] = {
    "queue-at-once": {"kind": "concurrency", "most": 100_000, "queues": ["bench"]},
    "key-at-once": {"kind": "concurrency", "most": 50_000, "queues": ["bench"], "per": "tenant"},
    "queue-rate": {"kind": "rate", "most": 1_000_000, "period_seconds": 1, "queues": ["bench"]},
    "key-rate": {"kind": "rate", "most": 500_000, "period_seconds": 1, "tasks": ["bench.for_tenant"], "per": "tenant"},
}


def run() -> dict[str, Any]:
    """Drain with and without limits by turns; then watch a backlog behind a rate; then another tenant's ten jobs."""
    with whole_system(slots=SLOTS) as system:
        system.http.put("/v1/queues/bench", json={}).raise_for_status()
        _drain(system, JOBS // 4)
        runs = []
        for _ in range(RUNS):
            _lift(system)
            runs.append({"limits": 0} | _drain(system, JOBS))
            for name, body in LIMITS.items():
                system.http.put(f"/v1/limits/{name}", json=body).raise_for_status()
            runs.append({"limits": len(LIMITS)} | _drain(system, JOBS))
        _lift(system)
        waiting = _behind_a_rate(system)
        other = _another_tenant(system)
    without, with_them = (_median(runs, limits) for limits in (0, len(LIMITS)))
    return {
        "name": "flow",
        "ok": True,
        "jobs": JOBS,
        "jobs_per_s": without,
        "jobs_per_s_with_limits": with_them,
        "ratio": round(with_them / without, 2),
        **waiting,
        **other,
        "runs": runs,
    }


def _median(runs: list[dict[str, Any]], limits: int) -> float:
    return statistics.median(one["jobs_per_s"] for one in runs if one["limits"] == limits)


def _lift(system: System) -> None:
    for name in LIMITS:
        system.http.delete(f"/v1/limits/{name}")


def _submit(system: System, jobs: int, tenant: str) -> None:
    entry = {"task": "bench.for_tenant", "payload": {"tenant": tenant}}
    for begin in range(0, jobs, 5000):
        batch = {"jobs": [entry] * min(5000, jobs - begin)}
        system.http.post("/v1/jobs/batch", json=batch).raise_for_status()


def _drain(system: System, jobs: int) -> dict[str, Any]:
    system.http.post("/v1/queues/bench/pause").raise_for_status()
    for tenant in range(10):
        _submit(system, jobs // 10, f"tenant-{tenant}")
    time.sleep(1.0)  # let the submits' own work come to rest: it isn't what is measured
    cpu, started = system.cpu(), time.monotonic()
    system.http.post("/v1/queues/bench/resume").raise_for_status()
    while not system.watch.is_drained():
        time.sleep(0.1)
    seconds = time.monotonic() - started
    return {"jobs_per_s": round(jobs / seconds), "cpu_us_per_job": per_job(cpu, system.cpu(), jobs)}


def _behind_a_rate(system: System) -> dict[str, Any]:
    """The CPU of the whole system while a backlog waits for a rate of 10 a second."""
    idle = _cpu_percent(system, IDLE_SECONDS)
    rate = {"kind": "rate", "most": 10, "period_seconds": 1, "queues": ["bench"]}
    system.http.put("/v1/limits/queue-rate", json=rate).raise_for_status()
    _submit(system, BACKLOG, "a")
    while int(system.stack.postgres.execute(_UNSORTED)):
        time.sleep(0.5)
    # What the drains and the submits have left is not what a backlog costs.
    system.stack.postgres.execute("VACUUM ANALYZE")
    time.sleep(5.0)
    busy = _cpu_percent(system, WATCHED_SECONDS)
    system.http.delete("/v1/limits/queue-rate").raise_for_status()
    while not system.watch.is_drained():
        time.sleep(0.5)
    return {
        "idle_cpu_percent_of_a_core": round(sum(idle.values()), 1),
        "waiting_cpu_percent_of_a_core": round(sum(busy.values()), 1),
        "waiting_cpu_by_part": busy,
        "idle_cpu_by_part": idle,
    }


_UNSORTED = "SELECT count(*) FROM mainspring.live_jobs WHERE state = 'scheduled'"


def _another_tenant(system: System) -> dict[str, Any]:
    """Ten jobs of a tenant behind a backlog of another, in a queue whose tenants take turns."""
    system.http.put("/v1/queues/bench", json={"fair_by": "tenant"}).raise_for_status()
    _submit(system, BACKLOG, "a")
    _submit(system, 10, "b")
    waits = (
        "SELECT max(extract(epoch FROM started_at - created_at)) FROM mainspring.jobs"
        " WHERE payload ->> 'tenant' = 'b' AND started_at IS NOT NULL HAVING count(*) = 10"
    )
    while not (waited := system.stack.postgres.execute(waits)):
        time.sleep(0.2)
    left = system.stack.postgres.execute(_UNSORTED.replace("'scheduled'", "'blocked'"))
    return {"other_tenant_s": round(float(waited), 2), "backlog_then": int(left)}


def _cpu_percent(system: System, seconds: float) -> dict[str, float]:
    before, started = system.cpu(), time.monotonic()
    time.sleep(seconds)
    after, elapsed = system.cpu(), time.monotonic() - started
    return {name: round((after[name] - before[name]) / elapsed * 100, 2) for name in after}
