"""API keys: who is let in, to do what, and how soon a revoked key is out."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from mainspring.devstack import Stack
from mainspring.devstack.fleet import open_fleet
from mainspring.store.pool import connect

from .api import Api, some_rows, start_api

NO_JOB = "01999999-0000-7000-8000-000000000000"


def keys(api: Api, *arguments: str) -> Any:
    environment = os.environ | {"MAINSPRING_DATABASE_URL": api.database_url}
    command = [sys.executable, "-m", "mainspring.cli.main", "keys", *arguments, "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    return json.loads(done.stdout)


def key(api: Api, *scopes: str) -> dict[str, str]:
    made = keys(api, "create", f"test {' '.join(scopes)}", *(word for scope in scopes for word in ("--scope", scope)))
    return {"Authorization": f"Bearer {made['key']}"}


@pytest.fixture(scope="module")
def guarded(stack: Stack, template_database: str) -> Iterator[Api]:
    """An api that has a key, so that it asks for one."""
    name = f"guarded_{secrets.token_hex(6)}"
    with start_api(stack, stack.postgres.create_database(name, template_database)) as one:
        some_rows(one)
        key(one, "admin")
        until_asked(one)
        yield one
    stack.postgres.drop_database(name)


def until_asked(api: Api) -> None:
    give_up_at = time.monotonic() + 10
    while api.http.get("/v1/stats").status_code != 401:
        assert time.monotonic() < give_up_at
        time.sleep(0.05)


def test_every_operation_asks_for_a_key(guarded: Api) -> None:
    document = guarded.http.get("/openapi.json").json()
    asked = 0
    for path, operations in document["paths"].items():
        concrete = path.replace("{name}", "q").replace("{job_id}", NO_JOB).replace("{letter_id}", NO_JOB)
        for method in operations:
            answer = guarded.http.request(method, concrete)
            assert answer.status_code == 401, f"{method} {path}"
            assert answer.headers["www-authenticate"] == "Bearer"
            asked += 1
    assert asked > 20


def test_the_health_page_asks_for_none(guarded: Api) -> None:
    assert guarded.http.get("/livez").status_code == 200
    assert guarded.http.get("/readyz").status_code == 200


@pytest.mark.parametrize(
    ("scope", "codes"),
    [
        ("read", (200, 403, 403)),
        ("submit", (403, 201, 403)),
        ("operate", (403, 403, 200)),
        ("admin", (200, 201, 200)),
    ],
)
def test_a_key_is_good_for_its_scope_alone(guarded: Api, scope: str, codes: tuple[int, ...]) -> None:
    headers = key(guarded, scope)
    answers = (
        guarded.http.get("/v1/stats", headers=headers),
        guarded.http.post("/v1/jobs", json={"task": "t"}, headers=headers),
        guarded.http.put("/v1/queues/q", json={}, headers=headers),
    )
    assert tuple(answer.status_code for answer in answers) == codes
    for answer in answers:
        if answer.status_code == 403:
            assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Bearer",
        "Bearer x",
        "Bearer msk_",
        f"Bearer msk_{'0' * 32}_",
        f"Bearer msk_{'g' * 32}_x",
        "Basic YTpi",
    ],
)
def test_what_is_no_key_is_refused(guarded: Api, text: str) -> None:
    assert guarded.http.get("/v1/stats", headers={"Authorization": text}).status_code == 401


def test_a_key_with_another_s_secret_is_refused(guarded: Api) -> None:
    one, other = (key(guarded, "read")["Authorization"] for _ in range(2))
    mixed = one[: len("Bearer msk_") + 33] + other[len("Bearer msk_") + 33 :]
    assert guarded.http.get("/v1/stats", headers={"Authorization": mixed}).status_code == 401


def test_a_revoked_key_is_out_within_seconds_and_its_last_use_is_kept(guarded: Api) -> None:
    headers = key(guarded, "read")
    assert guarded.http.get("/v1/stats", headers=headers).status_code == 200
    made = max(keys(guarded, "list")["items"], key=lambda one: one["created_at"])
    keys(guarded, "revoke", made["id"])
    give_up_at = time.monotonic() + 5
    while guarded.http.get("/v1/stats", headers=headers).status_code != 401:
        assert time.monotonic() < give_up_at
        time.sleep(0.05)
    (stored,) = [one for one in keys(guarded, "list")["items"] if one["id"] == made["id"]]
    assert stored["revoked_at"] is not None
    assert stored["last_used_at"] is not None


async def test_no_secret_is_stored(guarded: Api) -> None:
    # A secret may hold "_" itself, so it is what stands after the second one: "msk_<id>_<secret>".
    secret = key(guarded, "read")["Authorization"].split("_", 2)[2]
    assert len(secret) > 40
    connection = await connect(guarded.database_url, "test")
    try:
        rows = await connection.fetch("SELECT row_to_json(k)::text AS row FROM mainspring.api_keys AS k")
    finally:
        await connection.close()
    assert rows
    assert not any(secret in row["row"] for row in rows)


def test_the_history_names_the_key(guarded: Api) -> None:
    headers = key(guarded, "admin")
    job_id = guarded.http.post("/v1/jobs", json={"task": "t"}, headers=headers).json()["id"]
    job = guarded.http.post(f"/v1/jobs/{job_id}/cancel", headers=headers).json()
    assert [event["author"] for event in job["events"]] == ["test admin"]


def test_without_any_key_an_api_on_loopback_lets_this_machine_in(api: Api) -> None:
    assert api.http.get("/v1/stats").status_code == 200


def test_a_bind_beyond_loopback_without_keys_is_refused(stack: Stack, database_url: str) -> None:
    urls = {"MAINSPRING_DATABASE_URL": database_url, "MAINSPRING_AMQP_URL": "amqp://127.0.0.1:1"}
    with open_fleet(urls, stack.folder, f"open-{secrets.token_hex(4)}") as fleet:
        process = fleet.start("api", host="0.0.0.0")  # noqa: S104  that is what is refused
        assert process.wait(20) == 2
        assert "mainspring keys create" in process.log_tail(5)
