"""Drain: how fast one worker with two runners empties a queue of no-op jobs."""

from __future__ import annotations

import statistics
import time
from typing import Any

from .harness import System, per_job, whole_system

JOBS = 20_000
RUNS = 5
SLOTS = 400


def run() -> dict[str, Any]:
    """Measure RUNS drains after one to warm up."""
    with whole_system(slots=SLOTS) as system:
        _drain(system, JOBS // 4)
        runs = [_drain(system, JOBS) for _ in range(RUNS)]
    rates = [one["jobs_per_s"] for one in runs]
    median = sorted(runs, key=lambda one: one["jobs_per_s"])[len(runs) // 2]
    return {
        "name": "drain",
        "ok": True,
        "jobs": JOBS,
        "jobs_per_s": statistics.median(rates),
        "spread_jobs_per_s": [min(rates), max(rates)],
        "cpu_us_per_job": median["cpu_us_per_job"],
        "runs": runs,
    }


def _drain(system: System, jobs: int) -> dict[str, Any]:
    system.http.put("/v1/queues/bench", json={}).raise_for_status()
    system.http.post("/v1/queues/bench/pause").raise_for_status()
    for _ in range(jobs // 1000):
        batch = {"jobs": [{"task": "bench.noop"}] * 1000}
        system.http.post("/v1/jobs/batch", json=batch).raise_for_status()
    time.sleep(1.0)  # let the submits' own work (wake-ups, vacuum) come to rest: it isn't what is measured
    cpu, started = system.cpu(), time.monotonic()
    system.http.post("/v1/queues/bench/resume").raise_for_status()
    while not system.watch.is_drained():
        time.sleep(0.1)
    seconds = time.monotonic() - started
    return {
        "jobs_per_s": round(jobs / seconds),
        "seconds": round(seconds, 2),
        "cpu_us_per_job": per_job(cpu, system.cpu(), jobs),
    }
