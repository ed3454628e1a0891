"""A whole system of real processes, and the questions that tests ask it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import httpx

from mainspring.devstack import Stack
from mainspring.devstack.fleet import Fleet, ServiceProcess
from mainspring.devstack.provision import psql_program
from tests.tools.psql import Psql

TABLES = """
CREATE TABLE ledger (job uuid, attempt int, what text, pid int, at timestamptz DEFAULT clock_timestamp());
CREATE TABLE effects (job uuid, attempt int);
"""
FINAL = {"succeeded", "dead", "cancelled"}
#: Short terms, so that a lost worker is noticed within seconds.
QUICK_LEASE = {"lease": 4, "beat": 1, "margin": 1}


class System:
    """Api, scheduler, dispatcher and dlq-handler; workers are started by the tests."""

    def __init__(self, stack: Stack, fleet: Fleet, database_url: str) -> None:
        self.stack, self.fleet, self.database_url = stack, fleet, database_url
        self._psql = Psql(psql_program(None), database_url, {} if stack.postgres.is_ours else os.environ)
        self.query(TABLES)
        self.api = fleet.start("api")
        self.scheduler = fleet.start("scheduler", beat=1)
        self.dispatcher = fleet.start("dispatcher")
        self.dlq_handler = fleet.start("dlq_handler", unalerted_after=1)
        self.api.wait_ready()
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{self.api.port}", timeout=30)

    def close(self) -> None:
        """End what this object itself has open; its owner ends the services."""
        self.http.close()
        self._psql.close()

    def worker(self, **settings: Any) -> ServiceProcess:
        """A worker with short lease terms."""
        return self.fleet.start("worker", "fleet_tasks", **{"slots": 5, "runners": 1, **QUICK_LEASE, **settings})

    def stop_workers(self) -> None:
        """Stop all workers in good order."""
        for one in self.fleet.services:
            if one.name == "worker" and one.is_running:
                one.stop()

    def ready(self) -> System:
        """Wait until all services are."""
        self.fleet.wait_ready()
        return self

    def submit(self, task: str, payload: dict[str, Any] | None = None, **fields: Any) -> str:
        """Submit a job; returns its id."""
        answer = self.http.post("/v1/jobs", json={"task": task, "payload": payload or {}, **fields})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def job(self, job_id: str) -> dict[str, Any]:
        """The job with its attempts and events."""
        answer = self.http.get(f"/v1/jobs/{job_id}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def until(self, condition: Callable[[], Any], seconds: float = 30, what: str = "") -> Any:
        """Wait until ``condition`` is true, and return what it returned."""
        give_up_at = time.monotonic() + seconds
        while not (found := condition()):
            assert time.monotonic() < give_up_at, f"not within {seconds} s: {what or condition}\n{self.evidence()}"
            time.sleep(0.05)
        return found

    def final(self, job_id: str, seconds: float = 30) -> dict[str, Any]:
        """The job once it has ended."""
        self.until(lambda: self.job(job_id)["state"] in FINAL, seconds, f"end of {job_id}: {self.job(job_id)}")
        return self.job(job_id)

    def started(self, job_id: str, attempt: int = 1, seconds: float = 30) -> None:
        """Wait until a handler has noted its start."""
        self.until(
            lambda: self.count(f"SELECT count(*) FROM ledger WHERE job = '{job_id}' AND attempt = {attempt}"),
            seconds,
            f"start of {job_id}",
        )

    def query(self, sql: str) -> str:
        """Ask the database."""
        return self._psql.ask(sql)

    def count(self, sql: str) -> int:
        """A number from the database."""
        return int(self.query(sql))

    def outcomes(self, job_id: str) -> list[str]:
        """The outcomes of a job's attempts, in order."""
        return [attempt["outcome"] for attempt in self.job(job_id)["attempts"]]

    def evidence(self) -> str:
        """What a person would look at first: live jobs, outbox, messages, and the end of every service's log."""
        rows = self.query("SELECT id, state, reason, fence, due_at, released_at, worker FROM mainspring.live_jobs")
        logs = "\n".join(f"== {one.name}\n{one.log_tail(8)}" for one in self.fleet.services)
        return f"{rows}\noutbox: {self.query('SELECT * FROM mainspring.outbox')}\nbroker: {self._messages()}\n{logs}"

    def messages_in(self, queue: str) -> int:
        """Messages in one queue of the broker, those in hand included."""
        return sum(ready + in_hand for name, ready, in_hand in self._messages() if name == queue)

    def _messages(self) -> list[tuple[str, int, int]]:
        totals = "?disable_stats=true&enable_queue_totals=true"
        queues = self.stack.rabbitmq.management.ask("GET", "queues", query=totals)
        counts = ("messages_ready", "messages_unacknowledged")
        return [(one["name"], *(one[count] for count in counts)) for one in queues if one.get("messages")]
