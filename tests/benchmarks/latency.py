"""Latency: from an HTTP client's send to the handler's first line, on an idle system."""

from __future__ import annotations

import json
import statistics
import time
from http.client import HTTPConnection
from typing import Any

import psutil

from .harness import System, whole_system

SAMPLES = 200
PAUSE = 0.05


def run() -> dict[str, Any]:
    """Measure SAMPLES single jobs, one after another, each on an idle system."""
    with whole_system(slots=10) as system:
        # The standard library's client: what a heavier one costs its own process isn't what is measured.
        client = HTTPConnection("127.0.0.1", system.parts["api"].port)
        for _ in range(20):
            _sample(system, client)
        samples = sorted(_sample(system, client) for _ in range(SAMPLES))
        client.close()
        idle = _idle_cpu(system)
    p50, p99 = statistics.median(samples), samples[int(len(samples) * 0.99)]
    return {
        "name": "latency",
        "ok": True,
        "samples": SAMPLES,
        "p50_ms": round(p50, 2),
        "p99_ms": round(p99, 2),
        "best_ms": round(samples[0], 2),
        "idle_cpu_percent_of_a_core": idle,
        "runs": [{"ms": [round(one, 2) for one in samples]}],
    }


def _sample(system: System, client: HTTPConnection) -> float:
    time.sleep(PAUSE)
    body = b'{"task": "bench.stamp"}'
    client.putrequest("POST", "/v1/jobs")
    client.putheader("Content-Type", "application/json")
    client.putheader("Content-Length", str(len(body)))
    sent = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    client.endheaders(body)
    job_id = json.loads(client.getresponse().read())["id"]
    time.sleep(PAUSE)
    answer = system.http.get(f"/v1/jobs/{job_id}/result", params={"wait": 10}).json()
    return (answer["result"] - sent) / 1e6


def _idle_cpu(system: System, seconds: float = 5.0) -> float:
    before, started = system.cpu(), time.monotonic()
    psutil.cpu_percent(interval=seconds)
    after, elapsed = system.cpu(), time.monotonic() - started
    return round(sum(after[name] - before[name] for name in after) / elapsed * 100, 1)
