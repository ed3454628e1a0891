"""Limits, queues' settings and "why" over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import asyncpg
import pytest

from mainspring.domain.errors import QueueFull
from mainspring.domain.job import JobRequest
from mainspring.domain.states import State
from mainspring.store import jobs, queues
from mainspring.store.pool import Conn, Database

from .api import Api
from .rows import put_job

RATE = {"kind": "rate", "most": 3, "period_seconds": 60, "queues": ["q"], "per": "who"}


@pytest.fixture(autouse=True)
def lift_limits(api: Api) -> Iterator[None]:
    """The api is shared, and a limit of one test would be on the jobs of another."""
    yield
    for one in api.http.get("/v1/limits").json()["items"]:
        api.http.delete(f"/v1/limits/{one['name']}").raise_for_status()


def in_database(api: Api, work: Callable[[Conn], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with Database(api.database_url, "test") as database, database.connection() as connection:
            return await work(connection)

    return asyncio.run(run())


def test_a_limit_is_made_shown_changed_and_lifted(api: Api) -> None:
    made = api.http.put("/v1/limits/made", json=RATE | {"note": "their terms"})
    assert made.status_code == 200
    shown = api.http.get("/v1/limits/made").json()
    assert {name: shown[name] for name in ("most", "burst", "per", "queues", "note", "keys")} == {
        "most": 3,
        "burst": 3,
        "per": "who",
        "queues": ["q"],
        "note": "their terms",
        "keys": [],
    }
    changed = api.http.put("/v1/limits/made", json={"kind": "concurrency", "most": 1, "tasks": ["t"]}).json()
    assert (changed["kind"], changed["period_seconds"], changed["queues"]) == ("concurrency", None, [])
    assert [one["name"] for one in api.http.get("/v1/limits").json()["items"]] == ["made"]
    assert api.http.delete("/v1/limits/made").status_code == 204
    assert api.http.delete("/v1/limits/made").status_code == 404
    assert api.http.get("/v1/limits/made").status_code == 404


def test_a_limit_has_a_strategy_and_can_keep_order(api: Api) -> None:
    one = {"kind": "concurrency", "most": 1, "queues": ["q"], "per": "who"}
    made = api.http.put("/v1/limits/newest", json=one | {"strategy": "cancel_running"}).json()
    assert (made["strategy"], made["ordered"]) == ("cancel_running", False)
    changed = api.http.put("/v1/limits/newest", json=one | {"ordered": True}).json()
    assert (changed["strategy"], changed["ordered"]) == ("wait", True)
    refused = api.http.put("/v1/limits/newest", json=one | {"ordered": True, "most": 2})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "ordered")
    assert api.http.put("/v1/limits/newest", json=one | {"strategy": "cancel"}).status_code == 422


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"most": 0}, "most"),
        ({"most": "3"}, "most"),
        ({"most": True}, "most"),
        ({"kind": "speed"}, "kind"),
        ({"queues": []}, "queues"),
        ({"queues": ["a b"]}, "queues.0"),
        ({"tasks": ["\u0000"]}, "tasks.0"),
        ({"per": "a..b"}, "per"),
        ({"cost": "x" * 65}, "cost"),
        ({"period_seconds": None}, "period_seconds"),
        ({"period_seconds": -1}, "period_seconds"),
        ({"burst": 0}, "burst"),
        ({"kind": "concurrency"}, "kind"),
        ({"surprise": 1}, "surprise"),
        ({"note": "\u0000"}, "note"),
    ],
)
def test_a_limit_that_can_not_be_is_refused_by_its_field(api: Api, change: dict[str, Any], field: str) -> None:
    answer = api.http.put("/v1/limits/refused", json=RATE | change)
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["field"] == field
    assert api.http.get("/v1/limits/refused").status_code == 404


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"fair_by": "a..b"}, "fair_by"),
        ({"fair_weights": {"a": 0}}, "fair_weights.a"),
        ({"fair_weights": {"a\u0000": 1}}, "fair_weights"),
        ({"default_expiry_seconds": 0}, "default_expiry_seconds"),
        ({"release_window": 0}, "release_window"),
    ],
)
def test_a_queue_setting_that_can_not_be_is_refused_by_its_field(
    api: Api, settings: dict[str, Any], field: str
) -> None:
    answer = api.http.put("/v1/queues/refused", json=settings)
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["field"] == field


def test_a_queue_keeps_what_a_change_does_not_name_and_null_lifts(api: Api) -> None:
    api.http.put("/v1/queues/kept", json={"fair_by": "who", "fair_weights": {"a": 2}, "release_window": 50})
    api.http.put("/v1/queues/kept", json={"default_expiry_seconds": 60.5})
    found = api.http.get("/v1/queues/kept").json()
    assert (found["fair_by"], found["fair_weights"], found["release_window"]) == ("who", {"a": 2}, 50)
    assert found["default_expiry_seconds"] == 60.5
    lifted = api.http.put(
        "/v1/queues/kept",
        json=dict.fromkeys(("fair_by", "fair_weights", "release_window", "default_expiry_seconds")),
    ).json()
    assert (lifted["fair_by"], lifted["fair_weights"], lifted["release_window"]) == (None, {}, 2000)
    assert lifted["default_expiry_seconds"] is None


def test_a_job_that_says_no_expiry_has_that_of_its_queue(api: Api) -> None:
    api.http.put("/v1/queues/perishable", json={"default_expiry_seconds": 90}).raise_for_status()
    bodies: list[dict[str, Any]] = [{}, {"delay_seconds": 3600}, {"expires_at": "2100-01-01T00:00:00Z"}]
    ids = [api.http.post("/v1/jobs", json={"task": "t", "queue": "perishable"} | body).json()["id"] for body in bodies]
    in_sql = "SELECT mainspring.submit('t', queue => 'perishable')"
    api.stack.postgres.execute(in_sql, api.database_url)
    left = (
        "SELECT count(*) FROM mainspring.live_jobs WHERE queue = 'perishable' AND expires_at - due_at = interval '90 s'"
    )
    assert api.count(left) == 3
    assert (
        api.count(f"SELECT extract(year FROM expires_at)::int FROM mainspring.live_jobs WHERE id = '{ids[2]}'") == 2100
    )


def test_why_names_the_limit_that_a_job_waits_for_and_who_holds_it(api: Api) -> None:
    api.http.put("/v1/queues/why", json={}).raise_for_status()
    api.http.put("/v1/limits/why-two", json={"kind": "concurrency", "most": 2, "queues": ["why"]}).raise_for_status()

    async def put(connection: Conn) -> tuple[list[str], str]:
        holding = [str(await put_job(connection, state, queue="why")) for state in (State.RUNNING, State.ADMITTED)]
        return holding, str(await put_job(connection, State.SCHEDULED, queue="why"))

    holding, waiting = in_database(api, put)
    answer = api.http.get(f"/v1/jobs/{waiting}/why").json()
    kinds = [one["kind"] for one in answer["blockers"]]
    assert kinds == ["no_worker", "concurrency"]
    limit = answer["blockers"][1]
    assert limit["details"] == {"limit": "why-two", "key": None, "most": 2, "held": 2, "held_by": sorted(holding)}
    assert [one["kind"] for one in api.http.get(f"/v1/jobs/{holding[0]}/why").json()["blockers"]] == ["running"]
    api.http.post("/v1/queues/why/pause", params={"note": "audit"})
    paused = api.http.get(f"/v1/jobs/{waiting}/why").json()["blockers"][0]
    assert (paused["kind"], paused["details"]["note"]) == ("queue_paused", "audit")
    in_use = api.http.get("/v1/limits/why-two").json()["keys"]
    assert in_use == [{"key": "", "held": 2, "released": 0, "left": 0}]
    api.http.post("/v1/queues/why/resume")
    api.http.delete("/v1/limits/why-two")


def test_why_of_a_job_that_has_ended_is_empty_and_of_none_is_404(api: Api) -> None:
    async def put(connection: Conn) -> list[str]:
        return [str(await put_job(connection, state)) for state in (State.DEAD, State.SUCCEEDED)]

    for job_id, state in zip(in_database(api, put), ("dead", "succeeded"), strict=True):
        assert api.http.get(f"/v1/jobs/{job_id}/why").json() == {"id": job_id, "state": state, "blockers": []}
    assert api.http.get("/v1/jobs/01a228fd-d2d0-799d-870e-9d4fbcc2f891/why").status_code == 404


def test_why_counts_the_jobs_that_are_ahead(api: Api) -> None:
    many = [{"task": "t", "queue": "line", "priority": priority} for priority in (9, 1, 5, 5)]
    ids = [one["id"] for one in api.http.post("/v1/jobs/batch", json={"jobs": many}).json()["jobs"]]
    ahead = {}
    for job_id in ids:
        found = {one["kind"]: one for one in api.http.get(f"/v1/jobs/{job_id}/why").json()["blockers"]}
        ahead[job_id] = found["ahead"]["details"]["jobs"] if "ahead" in found else 0
    first, second = sorted(ids[2:])  # of one instant: the order of their ids
    assert [ahead[job_id] for job_id in (ids[1], first, second, ids[0])] == [0, 1, 2, 3]


def test_a_full_queue_refuses_what_is_new_and_repeats_what_it_has_accepted(api: Api) -> None:
    api.http.put("/v1/queues/narrow", json={"most_waiting": 3}).raise_for_status()
    body = {"task": "t", "queue": "narrow"}
    first = api.http.post("/v1/jobs", json=body, headers={"Idempotency-Key": "narrow-1"})
    assert first.status_code == 201
    assert api.http.post("/v1/jobs/batch", json={"jobs": [body] * 3}).status_code == 429
    assert api.http.post("/v1/jobs/batch", json={"jobs": [body] * 2}).status_code == 201
    refused = api.http.post("/v1/jobs", json=body, headers={"Idempotency-Key": "narrow-2"})
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    assert "narrow" in refused.json()["detail"]
    assert api.count("SELECT count(*) FROM mainspring.idempotency_keys WHERE key = 'narrow-2'") == 0
    again = api.http.post("/v1/jobs", json=body, headers={"Idempotency-Key": "narrow-1"})
    assert (again.status_code, again.json()["id"]) == (201, first.json()["id"])
    assert api.http.post("/v1/jobs", json={"task": "t", "queue": "wide"}).status_code == 201
    assert api.count("SELECT count(*) FROM mainspring.live_jobs WHERE queue = 'narrow'") == 3
    api.http.post(f"/v1/jobs/{first.json()['id']}/cancel").raise_for_status()
    assert api.http.post("/v1/jobs", json=body, headers={"Idempotency-Key": "narrow-2"}).status_code == 201
    assert api.http.put("/v1/queues/narrow", json={"most_waiting": None}).json()["most_waiting"] is None
    assert api.http.post("/v1/jobs/batch", json={"jobs": [body] * 100}).status_code == 201


async def test_a_full_queue_refuses_no_job_of_a_schedule(database: Database) -> None:
    async with database.connection() as connection:
        await queues.make_queues(connection, ["q"])
        await queues.change(connection, "q", {"most_waiting": 1})
        await jobs.insert(connection, [JobRequest("t", queue="q")])
        with pytest.raises(QueueFull, match="queue q is full"):
            await jobs.insert(connection, [JobRequest("t", queue="q")])
        with pytest.raises(asyncpg.PostgresError, match="queue q is full"):
            await connection.execute("SELECT mainspring.submit('t', queue => 'q')")
        await jobs.insert(connection, [JobRequest("t", queue="q", schedule="s")])


LIMITS = [RATE | {"name": "filed-rate"}, {"name": "filed-one", "kind": "concurrency", "most": 1, "tasks": ["t"]}]


def a_file(queue: str) -> dict[str, Any]:
    queues = [{"name": queue, "concurrency": 4, "fair_by": "who"}, {"name": f"{queue}-too"}]
    return {"queues": queues, "limits": LIMITS}


def test_a_file_of_queues_and_limits_is_shown_and_then_applied_as_it_was_shown(api: Api) -> None:
    file = a_file("filed")
    planned = api.http.post("/v1/queues/apply", json=file | {"dry_run": True}).json()
    assert planned["created"] == ["queue filed", "queue filed-too", "limit filed-one", "limit filed-rate"]
    assert api.http.get("/v1/queues/filed").status_code == 404
    done = api.http.post("/v1/queues/apply", json=file | {"digest": planned["digest"]})
    assert done.status_code == 200, done.text
    found = api.http.get("/v1/queues/filed").json()
    assert (found["concurrency"], found["fair_by"], found["release_window"]) == (4, "who", 2000)
    again = api.http.post("/v1/queues/apply", json=file).json()
    assert (again["created"], again["changed"], len(again["unchanged"])) == ([], [], 4)
    stale = api.http.post("/v1/queues/apply", json=file | {"digest": planned["digest"]})
    assert stale.status_code == 409


def test_what_a_file_leaves_out_has_its_default_and_only_limits_are_pruned(api: Api) -> None:
    api.http.post("/v1/queues/apply", json=a_file("less")).raise_for_status()
    api.http.put("/v1/queues/less", json={"aging_seconds": 7, "default_retry": {"max_attempts": 9}})
    less = {"queues": [{"name": "less"}], "limits": LIMITS[:1], "prune": True}
    changed = api.http.post("/v1/queues/apply", json=less).json()
    (queue,) = changed["changed"]
    assert queue["name"] == "queue less"
    assert queue["after"] == {"concurrency": None, "fair_by": None, "default_retry": None, "aging_seconds": 300.0}
    assert queue["before"]["concurrency"] == 4
    assert "limit filed-one" in changed["deleted"]
    assert api.http.get("/v1/queues/less-too").status_code == 200
    assert api.http.get("/v1/limits/filed-one").status_code == 404


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"queues": [{"name": "a"}, {"name": "a"}]}, "queues.1.name"),
        ({"queues": [{"name": "a", "fair_by": ".."}]}, "queues.0.fair_by"),
        ({"queues": [{"name": "a", "release_window": 0}]}, "queues.0.release_window"),
        ({"limits": [{"name": "l", "kind": "rate", "most": 1, "queues": ["q"]}]}, "limits.0.period_seconds"),
        ({"limits": [{"kind": "concurrency", "most": 1, "queues": ["q"]}]}, "limits.0.name"),
        ({"surprise": []}, "surprise"),
    ],
)
def test_a_bad_entry_of_a_file_is_named_and_nothing_is_applied(api: Api, change: dict[str, Any], field: str) -> None:
    answer = api.http.post("/v1/queues/apply", json={"queues": [{"name": "never"}]} | change)
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["field"] == field
    assert api.http.get("/v1/queues/never").status_code == 404


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("POST", "/v1/jobs", {"task": "t", "delay_seconds": True}, "delay_seconds"),
        ("POST", "/v1/jobs", {"task": "t", "timeout_seconds": "5"}, "timeout_seconds"),
        ("PUT", "/v1/queues/q", {"aging_seconds": True}, "aging_seconds"),
        ("PUT", "/v1/limits/l", RATE | {"period_seconds": "60"}, "period_seconds"),
        ("PUT", "/v1/schedules/s", {"task": "t", "every_seconds": True}, "every_seconds"),
        ("PUT", "/v1/retention", {"keys_days": True}, "keys_days"),
        ("POST", "/v1/bulk", {"action": "cancel", "all": True, "per_second": True}, "per_second"),
    ],
)
def test_a_number_is_neither_text_nor_true(api: Api, method: str, path: str, body: Any, field: str) -> None:
    answer = api.http.request(method, path, json=body)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)
