"""The doctor finds what is wrong, and says how to mend it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from mainspring.devstack import Stack

from .system import System


def doctor(**environment: str) -> tuple[int, dict[str, dict[str, Any]]]:
    command = [sys.executable, "-m", "mainspring.cli.main", "doctor", "--json"]
    done = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=False, timeout=60
    )
    return done.returncode, {one["check"]: one for one in json.loads(done.stdout)["items"]}


def urls(system: System, vhost_url: str) -> dict[str, str]:
    api = f"http://127.0.0.1:{system.api.port}"
    return {
        "MAINSPRING_DATABASE_URL": system.database_url,
        "MAINSPRING_AMQP_URL": vhost_url,
        "MAINSPRING_API_URL": api,
    }


def test_a_system_that_is_well_is_found_well(system: System, vhost_url: str) -> None:
    system.worker()
    system.ready()
    system.final(system.submit("fleet.nap", {"seconds": 0}))
    code, found = doctor(**urls(system, vhost_url))
    assert [one for one in found.values() if not one["is_ok"]] == []
    assert code == 0
    assert "version" in found["rabbitmq"]["found"]


def test_a_queue_without_a_worker_and_a_missing_queue_are_found(system: System, vhost_url: str) -> None:
    system.ready()
    system.submit("nobody.knows", queue="lonely")
    system.until(lambda: doctor(**urls(system, vhost_url))[1]["topology"]["is_ok"], what="the queue's topology")
    system.scheduler.stop()
    system.stack.rabbitmq.delete_queue(vhost_url.rsplit("/", 1)[1], "mainspring.work.v1.lonely")
    code, found = doctor(**urls(system, vhost_url))
    assert code == 1
    assert "lonely" in found["workers"]["found"]
    assert found["workers"]["mend"].startswith("start `mainspring worker`")
    assert found["topology"]["found"].startswith("1 of ")
    assert not found["scheduler"]["is_ok"]


def test_servers_that_are_away_and_a_missing_schema_are_found(stack: Stack) -> None:
    away = "127.0.0.1:1"
    code, found = doctor(
        MAINSPRING_DATABASE_URL=f"postgresql://x@{away}/x",
        MAINSPRING_AMQP_URL=f"amqp://x:x@{away}/",
        MAINSPRING_API_URL=f"http://{away}",
    )
    assert code == 1
    assert {name for name, one in found.items() if not one["is_ok"]} == {"postgres", "rabbitmq", "api"}
    empty = stack.postgres.create_database("empty_for_doctor")
    try:
        _, found = doctor(MAINSPRING_DATABASE_URL=empty, MAINSPRING_AMQP_URL=stack.rabbitmq.url)
        assert (found["schema"]["is_ok"], found["schema"]["mend"]) == (False, "run `mainspring migrate`")
    finally:
        stack.postgres.drop_database("empty_for_doctor")


def test_a_schema_of_a_newer_release_is_found_and_the_rest_is_checked_all_the_same(
    stack: Stack, database_url: str, vhost_url: str
) -> None:
    stack.postgres.execute(
        "INSERT INTO mainspring.schema_migrations (version, name, phase, breaking, checksum)"
        " VALUES (9999, '9999_new', 'contract', true, '')",
        database_url,
    )
    _, found = doctor(MAINSPRING_DATABASE_URL=database_url, MAINSPRING_AMQP_URL=vhost_url)
    assert (found["schema"]["is_ok"], found["schema"]["mend"]) == (False, "use a newer release of Mainspring")
    assert (found["postgres"]["is_ok"], found["rabbitmq"]["is_ok"]) == (True, True)
