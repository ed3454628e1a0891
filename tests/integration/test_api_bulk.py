"""Bulk operations over HTTP and on the command line."""

from __future__ import annotations

import pytest

from .api import Api, some_rows
from .test_cli import document, mainspring


@pytest.fixture(scope="module", autouse=True)
def rows(api: Api) -> None:
    some_rows(api)


def test_a_dry_run_counts_and_changes_nothing(api: Api) -> None:
    answer = api.http.post("/v1/bulk", json={"action": "cancel", "filter": {"queue": "q"}, "dry_run": True})
    assert answer.status_code == 200
    counted = answer.json()
    live = ("scheduled", "blocked", "enqueued", "admitted", "retrying", "running")
    assert counted == {"matched": 6, "by_state": dict.fromkeys(sorted(live), 1)}
    assert api.http.get("/v1/jobs", params={"state": "cancelled", "queue": "q"}).json()["items"][1:] == []


def test_an_operation_is_begun_shown_listed_and_cancelled(api: Api) -> None:
    body = {"action": "redrive", "filter": {"task": "t", "reason": "exhausted"}, "per_second": 5, "canary": {}}
    made = api.http.post("/v1/bulk", json=body | {"note": "again"})
    assert made.status_code == 201
    one = made.json()
    assert {name: one[name] for name in ("action", "filter", "state", "taken", "note", "canary")} == {
        "action": "redrive",
        "filter": {"task": "t", "reason": "exhausted"},
        "state": "running",
        "taken": 0,
        "note": "again",
        "canary": {"steps": [0.01, 0.1], "most_failures": 0.1},
    }
    assert api.http.get(f"/v1/bulk/{one['id']}").json() == one
    assert api.http.get("/v1/bulk").json()["items"][0] == one
    assert api.http.post(f"/v1/bulk/{one['id']}/cancel").json()["state"] == "cancelled"
    again = api.http.post(f"/v1/bulk/{one['id']}/cancel")
    assert (again.status_code, again.json()["detail"][-17:]) == (409, "cancelled already")
    assert api.http.get("/v1/bulk/01a228fd-d2d0-799d-870e-9d4fbcc2f891").status_code == 404


def test_what_is_wrong_is_named(api: Api) -> None:
    for body, field in (
        ({"action": "cancel"}, "filter"),
        ({"action": "cancel", "filter": {"fingerprint": "x"}}, "filter.fingerprint"),
        ({"action": "cancel", "filter": {"state": ["dead"]}}, "filter.state"),
        ({"action": "redrive", "filter": {"state": ["dead"]}}, "filter.state"),
        ({"action": "redrive", "filter": {"queue": "q"}, "canary": {"steps": [2]}}, "canary.steps"),
        ({"action": "edit", "filter": {"queue": "q"}}, "priority"),
        ({"action": "explode"}, "action"),
        ({"action": "cancel", "filter": {"queue": "q"}, "all": True}, "filter"),
    ):
        answer = api.http.post("/v1/bulk", json=body)
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)


def test_the_command_counts_asks_and_begins(api: Api) -> None:
    counted = document(api, "bulk", "start", "cancel", "--queue", "q", "--dry-run")
    assert counted["matched"] == 6
    refused = mainspring(api, "bulk", "start", "cancel", "--queue", "q")
    assert refused.returncode == 1
    assert "cancel: 6 (" in refused.stderr
    begun = document(api, "bulk", "start", "cancel", "--queue", "q", "--yes", "--no-wait")
    assert begun["matched"] == 6
    assert document(api, "bulk", "cancel", begun["id"])["state"] == "cancelled"
    assert document(api, "bulk", "list")["items"][0]["id"] == begun["id"]
    assert begun["id"] in mainspring(api, "bulk", "list").stdout
    wrong = mainspring(api, "bulk", "start", "redrive", "--tag", "x", "--yes")
    assert (wrong.returncode, "filter.tag" in wrong.stderr) == (2, True)
