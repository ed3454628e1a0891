"""What the benchmarks share: a whole system on this machine, and a meter of CPU by part."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil

from mainspring.devstack import Stack, start_stack
from mainspring.devstack.fleet import Fleet, ServiceProcess, open_fleet
from mainspring.store.migrate import migrate
from mainspring.store.pool import connect

HERE = Path(__file__).parent


class Watch:
    """One connection to Postgres that asks little: what is measured pays for it."""

    def __init__(self, url: str) -> None:
        self._loop = asyncio.Runner()
        self._connection = self._loop.run(connect(url, "bench"))

    def is_drained(self) -> bool:
        """True when no job is left to run."""
        return not self._loop.run(self._connection.fetchval("SELECT EXISTS (SELECT FROM mainspring.live_jobs)"))

    def close(self) -> None:
        """Close the connection."""
        self._loop.run(self._connection.close())
        self._loop.close()


@dataclass
class System:
    """Two servers and the five services."""

    stack: Stack
    fleet: Fleet
    http: httpx.Client
    watch: Watch
    parts: dict[str, ServiceProcess] = field(default_factory=dict)

    def cpu(self) -> dict[str, float]:
        """CPU seconds used so far, by part."""
        pids = {"postgres": self.stack.postgres.pids(), "rabbitmq": self.stack.rabbitmq.pids()}
        pids |= {name: one.pids() for name, one in self.parts.items()}
        return {name: sum(map(_cpu_seconds, members)) for name, members in pids.items()}


def _cpu_seconds(pid: int) -> float:
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    # A Postgres backend that has ended is counted by its parent.
    return times.user + times.system + times.children_user + times.children_system


@contextlib.contextmanager
def whole_system(*, slots: int, runners: int = 2, **worker: object) -> Iterator[System]:
    """Everything on this machine: durable Postgres, quorum queues, every service, every guarantee."""
    with start_stack() as stack:
        asyncio.run(migrate(stack.postgres.url))
        with open_fleet(stack.environment(), stack.folder, PYTHONPATH=str(HERE)) as fleet:
            api = fleet.start("api")
            parts = {name: fleet.start(name) for name in ("scheduler", "dispatcher", "dlq_handler")}
            parts["worker"] = fleet.start("worker", "bench_tasks", slots=slots, runners=runners, **worker)
            fleet.wait_ready()
            with (
                httpx.Client(base_url=f"http://127.0.0.1:{api.port}", timeout=60) as http,
                contextlib.closing(Watch(stack.postgres.url)) as watch,
            ):
                yield System(stack, fleet, http, watch, {"api": api, **parts})


def per_job(before: dict[str, float], after: dict[str, float], jobs: int) -> dict[str, float]:
    """Microseconds of CPU for each job, by part."""
    return {name: round((after[name] - before[name]) / jobs * 1e6, 1) for name in after}
