"""An api process of its own, and rows for it to show."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx

from mainspring.devstack import Stack
from mainspring.devstack.fleet import open_fleet
from mainspring.domain.states import State
from mainspring.store.pool import Database

from .rows import put_job


@dataclass(frozen=True)
class Api:
    """An api process without a scheduler: what is submitted stays as it is."""

    url: str
    http: httpx.Client
    database_url: str
    stack: Stack

    def count(self, sql: str) -> int:
        """A number from the database."""
        return int(self.stack.postgres.execute(sql, self.database_url))


@contextmanager
def start_api(stack: Stack, database_url: str, **settings: object) -> Iterator[Api]:
    """Start an api on this database."""
    urls = {"MAINSPRING_DATABASE_URL": database_url, "MAINSPRING_AMQP_URL": "amqp://127.0.0.1:1"}
    with open_fleet(urls, stack.folder, f"api-{database_url[-12:]}") as fleet:
        process = fleet.start("api", **settings)
        process.wait_ready()
        url = f"http://127.0.0.1:{process.port}"
        with httpx.Client(base_url=url, timeout=30) as http:
            yield Api(url, http, database_url, stack)


def some_rows(api: Api) -> None:
    """Jobs in every state, a schedule, a queue, dead letters."""
    api.http.put("/v1/queues/q", json={"concurrency": 5})
    api.http.put("/v1/schedules/daily", json={"task": "t", "cron": "0 6 * * *"})
    asyncio.run(_put_jobs(api.database_url))


async def _put_jobs(url: str) -> None:
    async with Database(url, "test") as database, database.connection() as connection:
        made = {state: await put_job(connection, state) for state in State}
        await connection.execute(
            "INSERT INTO mainspring.dead_letters (id, kind, job_id, queue, task, reason, outcome, fingerprint, error)"
            " VALUES ($1, 'job', $1, 'q', 't', 'exhausted', 'failed', 'ValueError:t', $2)",
            *(made[State.DEAD], json.dumps({"type": "ValueError", "message": "no", "traceback": ""})),
        )
