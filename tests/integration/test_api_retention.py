"""Retention over HTTP and on the command line."""

from __future__ import annotations

from .api import Api
from .test_cli import document, mainspring


def test_what_is_kept_is_shown_and_set(api: Api) -> None:
    defaults = {
        "succeeded_days": 30,
        "cancelled_days": 30,
        "results_days": None,
        "history_days": 90,
        "keys_days": 30,
    }
    assert api.http.get("/v1/retention").json() == defaults
    assert api.http.put("/v1/retention", json={"results_days": 0.5}).json() == defaults | {"results_days": 0.5}
    assert document(api, "retention", "set", "--succeeded", "14") == defaults | {
        "succeeded_days": 14,
        "results_days": 0.5,
    }
    assert document(api, "retention", "set", "--results", "none", "--succeeded", "30") == defaults
    assert document(api, "retention", "show") == defaults


def test_what_is_wrong_is_named(api: Api) -> None:
    for body, field in (({"succeeded_days": 0}, "succeeded_days"), ({"keys_days": None}, "keys_days"), ({"x": 1}, "x")):
        answer = api.http.put("/v1/retention", json=body)
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)
    assert mainspring(api, "retention", "set", "--results", "some").returncode == 2
    assert mainspring(api, "retention", "set").returncode == 2


def test_a_queue_keeps_otherwise(api: Api) -> None:
    own = {"succeeded_days": 2, "last": 1000}
    assert api.http.put("/v1/queues/brief", json={"retention": own}).json()["retention"] == own
    assert api.http.put("/v1/queues/brief", json={"aging_seconds": 60}).json()["retention"] == own
    assert document(api, "queues", "set", "brief", "--retention", '{"last": 5}')["retention"] == {"last": 5}
    refused = api.http.put("/v1/queues/brief", json={"retention": {"last": 0}})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "retention.last")
    assert document(api, "queues", "set", "brief", "--retention", "none")["retention"] is None
    file = {"queues": [{"name": "brief", "retention": own}]}
    assert api.http.post("/v1/queues/apply", json=file).status_code == 200
    assert api.http.post("/v1/queues/apply", json=file).json()["unchanged"] == ["queue brief"]
