"""Recovery: how long after a blow everything goes on: a killed worker, scheduler, dispatcher; a wiped broker."""

from __future__ import annotations

import statistics
import threading
import time
from typing import Any

from mainspring.devstack.fleet import ServiceProcess

from .harness import System, whole_system

LEASE_SECONDS = 15
RUNNING = 20
UNFINISHED = 10_000
RUNS = 3
#: Jobs are submitted so often while a service is down, in seconds.
EVERY = 0.05


def run() -> dict[str, Any]:
    """Strike each part RUNS times; the broker once a run."""
    with whole_system(slots=100, runners=1) as system:
        workers = [system.parts["worker"], system.fleet.start("worker", "bench_tasks", slots=100, runners=1)]
        workers[1].wait_ready()
        runs = [_blows(system, workers) for _ in range(RUNS)]
    figures = {name: round(statistics.median(one[name] for one in runs), 2) for name in runs[0]}
    bars = {
        "killed_worker_s": LEASE_SECONDS + 2,
        "killed_scheduler_s": 5,
        "killed_dispatcher_s": 5,
        "wiped_broker_s": 15,
    }
    is_ok = all(figures[name] <= bar for name, bar in bars.items())
    return {"name": "recovery", "ok": is_ok, **figures, "bars": bars, "runs": runs}


def _blows(system: System, workers: list[ServiceProcess]) -> dict[str, float]:
    return {
        "killed_worker_s": _kill_worker(system, workers),
        "killed_scheduler_s": _kill(system, system.parts["scheduler"]),
        "killed_dispatcher_s": _kill(system, system.parts["dispatcher"]),
        **_wipe_broker(system),
    }


def _kill_worker(system: System, workers: list[ServiceProcess]) -> float:
    """From the kill of a worker with RUNNING jobs to the start of the last one's next attempt."""
    workers[1].stop()
    system.http.post("/v1/jobs/batch", json={"jobs": [{"task": "bench.slow_at_first"}] * RUNNING}).raise_for_status()
    _until(system, f"SELECT count(*) = {RUNNING} FROM mainspring.live_jobs WHERE state = 'running'")
    workers[1].start()
    workers[1].wait_ready()
    killed_at = float(system.stack.postgres.execute("SELECT extract(epoch FROM clock_timestamp())"))
    workers[0].kill()
    _until(system, "SELECT count(*) = 0 FROM mainspring.live_jobs")
    last = system.stack.postgres.execute(
        "SELECT extract(epoch FROM max(started_at)) FROM mainspring.attempts WHERE outcome = 'succeeded'"
    )
    workers[0].start()
    workers[0].wait_ready()
    return float(last) - killed_at


def _kill(system: System, one: ServiceProcess) -> float:
    """The longest that a job waited from its submit to its start while the only one of a service was killed."""
    over = threading.Event()

    def submit() -> None:
        while not over.wait(EVERY):
            system.http.post("/v1/jobs", json={"task": "bench.noop"}).raise_for_status()

    marked = system.stack.postgres.execute("SELECT clock_timestamp()")
    client = threading.Thread(target=submit)
    client.start()
    time.sleep(1)
    one.kill()
    one.start()  # as a supervisor does
    one.wait_ready()
    time.sleep(1)
    over.set()
    client.join()
    _until(system, "SELECT count(*) = 0 FROM mainspring.live_jobs")
    longest = system.stack.postgres.execute(
        f"SELECT max(extract(epoch FROM started_at - created_at)) FROM mainspring.jobs WHERE created_at >= '{marked}'"
    )
    return float(longest)


def _wipe_broker(system: System) -> dict[str, float]:
    """From the return of a broker that lost all amid UNFINISHED jobs to the new epoch, and to the last job's end."""
    for _ in range(UNFINISHED // 1000):
        batch = {"jobs": [{"task": "bench.nap"}] * 1000}
        system.http.post("/v1/jobs/batch", json=batch).raise_for_status()
    epoch = system.stack.postgres.execute("SELECT epoch FROM mainspring.broker_epoch")
    system.stack.rabbitmq.wipe()
    back_at = time.monotonic()
    _until(system, f"SELECT epoch <> '{epoch}' FROM mainspring.broker_epoch")
    noticed = time.monotonic() - back_at
    _until(system, "SELECT count(*) = 0 FROM mainspring.live_jobs")
    return {"wiped_broker_noticed_s": noticed, "wiped_broker_s": time.monotonic() - back_at}


def _until(system: System, sql: str) -> None:
    give_up_at = time.monotonic() + 120
    while system.stack.postgres.execute(sql) != "t":
        if time.monotonic() > give_up_at:
            raise TimeoutError(sql)
        time.sleep(0.05)
