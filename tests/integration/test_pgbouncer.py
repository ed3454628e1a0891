"""P05: everything through PgBouncer in transaction mode, where no session is one's own."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainspring.devstack import Stack
from mainspring.devstack.fleet import open_fleet
from mainspring.domain.errors import Misconfigured
from mainspring.store.migrate import migrate
from mainspring.store.pool import Database
from tests.tools.pgbouncer import pgbouncer

from .system import System

#: It may know of the parameters that a session is begun with, or refuse them.
IGNORED = "ignore_startup_parameters = extra_float_digits,jit,enable_seqscan,idle_in_transaction_session_timeout"


@pytest.fixture(params=["", IGNORED], ids=["refuses parameters", "ignores some parameters"])
def pooled_url(request: pytest.FixtureRequest, database_url: str) -> Iterator[str]:
    with pgbouncer(database_url, connections=2, more=request.param) as url:
        yield url


@pytest.fixture
def pooled(stack: Stack, database_url: str, vhost_url: str, pooled_url: str) -> Iterator[System]:
    """The services know Postgres through PgBouncer alone."""
    urls = {"MAINSPRING_DATABASE_URL": pooled_url, "MAINSPRING_AMQP_URL": vhost_url}
    name = f"pooled-{secrets.token_hex(4)}"
    with open_fleet(urls, stack.folder, name, PYTHONPATH=os.fspath(Path(__file__).parents[1])) as fleet:
        system = System(stack, fleet, database_url)
        yield system
        system.close()


@pytest.mark.slow
@pytest.mark.timeout(200)
@pytest.mark.parametrize("pooled_url", [""], indirect=True)
def test_p05_five_hundred_jobs_run_through_two_server_connections(pooled: System) -> None:
    for _ in range(3):
        pooled.worker(slots=7, runners=1)
    pooled.ready()
    schedule = {"task": "fleet.effect", "every_seconds": 1}
    assert pooled.http.put("/v1/schedules/pooled", json=schedule).status_code in (200, 201)
    ids = []
    for _ in range(5):
        jobs = [{"task": "fleet.effect", "payload": {}, "idempotency_key": secrets.token_hex(8)} for _ in range(90)]
        jobs += [{"task": "fleet.fail", "payload": {"times": 1}} for _ in range(10)]
        answer = pooled.http.post("/v1/jobs/batch", json={"jobs": jobs})
        assert answer.status_code == 201, answer.text
        ids += [job["id"] for job in answer.json()["jobs"]]
    for job_id in ids:
        assert pooled.final(job_id, 100)["state"] == "succeeded"
    fired = pooled.count("SELECT count(*) FROM mainspring.jobs WHERE schedule = 'pooled' AND state = 'succeeded'")
    assert fired >= 2
    assert (
        pooled.count(
            "SELECT count(*) FROM effects WHERE job NOT IN (SELECT id FROM mainspring.jobs WHERE schedule = 'pooled')"
        )
        == 450
    )
    logs = "\n".join(one.log_tail(10_000) for one in pooled.fleet.services)
    for trouble in ("prepared statement", "does not exist", "already exists", "pass failed", "Traceback"):
        assert trouble not in logs, [line for line in logs.splitlines() if trouble in line][:3]


async def test_p05_a_session_is_left_as_it_was_found(pooled_url: str) -> None:
    async with Database(pooled_url, "test", most=5) as database:

        async def settings(connection):
            return [
                await connection.fetchval(f"SELECT current_setting('{name}')") for name in ("jit", "enable_seqscan")
            ]

        assert await database.run(settings) == ["off", "off"]
        async with database.handler_connection() as connection:
            assert await settings(connection) == ["on", "on"]


async def test_p05_migrating_through_the_pooler_is_refused_with_the_variable_to_set(pooled_url: str) -> None:
    with pytest.raises(Misconfigured, match="MAINSPRING_DATABASE_DIRECT_URL"):
        await migrate(pooled_url)
