"""P06: Postgres is read-only, cuts everybody off, restarts or hangs: services say so, and work again soon after."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from mainspring.devstack import Stack, start_stack
from mainspring.devstack.fleet import open_fleet

from .system import System

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def breakable() -> Iterator[Stack]:
    with start_stack(durable=False) as stack:
        yield stack


@pytest.fixture(scope="module")
def away(breakable: Stack) -> Iterator[System]:
    urls = {"MAINSPRING_DATABASE_URL": breakable.postgres.url, "MAINSPRING_AMQP_URL": breakable.rabbitmq.url}
    with open_fleet(urls, breakable.folder, "away", PYTHONPATH=str(Path(__file__).parents[1])) as fleet:
        fleet.migrate()
        system = System(breakable, fleet, breakable.postgres.url)
        system.worker(slots=10)
        yield system.ready()
        system.close()


def read_only(stack: Stack) -> None:
    set_read_only(stack, "on")
    time.sleep(4)
    set_read_only(stack, "off")


def set_read_only(stack: Stack, value: str) -> None:
    stack.postgres.execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}")
    stack.postgres.execute("SELECT pg_reload_conf()")


def terminate_everybody(stack: Stack) -> None:
    stack.postgres.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")


def freeze(stack: Stack) -> None:
    stack.postgres.freeze()
    time.sleep(6)
    stack.postgres.thaw()


def restart(stack: Stack) -> None:
    stack.postgres.restart()


@pytest.mark.parametrize("fault", [read_only, terminate_everybody, freeze, restart])
def test_p06_no_job_is_lost_and_all_work_again_within_ten_seconds(
    away: System, breakable: Stack, fault: Callable[[Stack], None]
) -> None:
    ids = [away.submit("fleet.effect", {"seconds": 1.5}) for _ in range(20)]
    fault(breakable)
    back_at = time.monotonic()
    while True:  # a submit is accepted, and its job runs
        try:
            answer = away.http.post("/v1/jobs", json={"task": "fleet.add", "payload": {"a": 1, "b": 2}}, timeout=5)
        except httpx.TransportError:
            continue
        if answer.status_code == 201:
            break
        assert answer.status_code == 503
    assert away.final(answer.json()["id"], 15)["state"] == "succeeded"
    assert time.monotonic() - back_at < 10
    for job_id in ids:
        assert away.final(job_id, 60)["state"] == "succeeded"
    effects = away.query(
        "SELECT count(*), count(DISTINCT job) FROM effects WHERE job::text IN ('" + "','".join(ids) + "')"
    )
    assert effects == "20|20"


def readiness(away: System) -> tuple[set[int], set[int]]:
    """The statuses of /readyz and of /livez over all services."""
    ready, alive = set(), set()
    for one in away.fleet.services:
        base = f"http://127.0.0.1:{one.port}"
        for statuses, page in ((ready, "readyz"), (alive, "livez")):
            try:
                statuses.add(httpx.get(f"{base}/{page}", timeout=5).status_code)
            except httpx.ConnectError:
                statuses.add(0)  # it is only beginning
    return ready, alive


def test_p06_readiness_says_that_postgres_takes_no_writes_and_liveness_stays(away: System, breakable: Stack) -> None:
    away.until(lambda: readiness(away) == ({200}, {200}), 20)
    set_read_only(breakable, "on")
    try:
        away.until(lambda: readiness(away) == ({503}, {200}), 10)
        missing = httpx.get(f"http://127.0.0.1:{away.api.port}/readyz").json()["missing"]
        assert missing == {"postgres": "it takes no writes: a standby, or read-only"}
    finally:
        set_read_only(breakable, "off")
    away.until(lambda: readiness(away) == ({200}, {200}), 10)


def test_p06_services_begin_and_stop_while_postgres_takes_no_writes(away: System, breakable: Stack) -> None:
    services = away.fleet.services
    assert [one.stop() for one in services] == [0] * len(services)
    set_read_only(breakable, "on")
    try:
        for one in services:
            one.start()
        away.until(lambda: readiness(away) == ({503}, {200}), 20)
        time.sleep(2)  # long enough for the first write of each
        assert all(one.is_running for one in services)
    finally:
        set_read_only(breakable, "off")
    away.until(lambda: readiness(away) == ({200}, {200}), 20)
    set_read_only(breakable, "on")
    try:
        assert [one.stop() for one in services] == [0] * len(services)
    finally:
        set_read_only(breakable, "off")
        for one in services:
            one.start()
    away.until(lambda: readiness(away) == ({200}, {200}), 20)


def test_p06_readiness_says_that_postgres_hangs(away: System, breakable: Stack) -> None:
    breakable.postgres.freeze()
    try:
        give_up_at = time.monotonic() + 15
        while (found := readiness(away)) != ({503}, {200}) and time.monotonic() < give_up_at:
            time.sleep(0.2)
    finally:
        breakable.postgres.thaw()
    assert found == ({503}, {200})
    away.until(lambda: readiness(away) == ({200}, {200}), 30)
