"""Schedules over HTTP beyond one of them: files, filters, calendars, backfills; and their words and warnings."""

from __future__ import annotations

import time
from typing import Any

import httpx
import pytest

from .api import Api

DAILY = {"task": "t", "cron": "0 6 * * *", "timezone": "Europe/Berlin"}


def put(api: Api, name: str, **fields: Any) -> dict[str, Any]:
    answer = api.http.put(f"/v1/schedules/{name}", json=DAILY | fields)
    assert answer.status_code == 200, answer.text
    saved: dict[str, Any] = answer.json()
    return saved


def apply(api: Api, schedules: list[dict[str, Any]], **options: bool) -> dict[str, Any]:
    answer = api.http.post("/v1/schedules/apply", json={"schedules": schedules, **options})
    assert answer.status_code == 200, answer.text
    applied: dict[str, Any] = answer.json()
    return applied


def fields_of(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 422, answer.text
    return [one["field"] for one in answer.json()["errors"]]


def names(api: Api, **which: Any) -> list[str]:
    return [one["name"] for one in api.http.get("/v1/schedules", params=which).json()["items"]]


def test_a_file_is_shown_then_applied_whole_and_again_changes_nothing(api: Api) -> None:
    put(api, "file-a", note="by hand", payload={"full": True})
    api.http.post("/v1/schedules/file-a/pause", params={"note": "the move"}).raise_for_status()
    wanted = [{"name": "file-a", **DAILY, "priority": 2, "payload": {"full": 1}}, {"name": "file-b", **DAILY}]
    planned = apply(api, wanted, dry_run=True)
    assert planned["created"] == ["file-b"]
    assert planned["changed"] == [
        {
            "name": "file-a",
            "before": {"payload": {"full": True}, "priority": None, "note": "by hand"},
            "after": {"payload": {"full": 1}, "priority": 2, "note": None},
        }
    ]
    assert names(api, prefix="file-") == ["file-a"]
    assert apply(api, wanted)["created"] == ["file-b"]
    # What the operators did is theirs.
    stored = api.http.get("/v1/schedules/file-a").json()
    assert (stored["paused"], stored["pause_note"]) == (True, "the move")
    again = apply(api, wanted)
    assert (again["created"], again["changed"], again["unchanged"]) == ([], [], ["file-a", "file-b"])


def test_what_is_applied_is_what_was_shown_or_nothing(api: Api) -> None:
    put(api, "shown-a")
    wanted = [{"name": "shown-a", **DAILY, "priority": 2}]
    shown = apply(api, wanted, dry_run=True)
    put(api, "shown-a", priority=7)
    body = {"schedules": wanted, "digest": shown["digest"]}
    answer = api.http.post("/v1/schedules/apply", json=body)
    assert (answer.status_code, api.http.get("/v1/schedules/shown-a").json()["priority"]) == (409, 7)
    again = apply(api, wanted, dry_run=True)
    assert again["digest"] != shown["digest"]
    assert apply(api, wanted, digest=again["digest"])["digest"] == again["digest"]
    assert api.http.get("/v1/schedules/shown-a").json()["priority"] == 2


def test_one_bad_schedule_in_a_file_is_named_and_nothing_is_applied(api: Api) -> None:
    bad = [{"name": "half-a", **DAILY}, {"name": "half-b", "task": "t", "cron": "0 0 30 2 *"}]
    unknown = [{"name": "half-a", **DAILY}, {"name": "half-b", **DAILY, "calendars": ["nowhere"]}]
    for dry_run in (True, False):
        for schedules, field in ((bad, "cron"), (unknown, "calendars.0")):
            body = {"schedules": schedules, "dry_run": dry_run}
            assert fields_of(api.http.post("/v1/schedules/apply", json=body)) == [f"schedules.1.{field}"]
    twice = [{"name": "half-a", **DAILY}] * 2
    assert fields_of(api.http.post("/v1/schedules/apply", json={"schedules": twice})) == ["schedules.1.name"]
    assert names(api, prefix="half-") == []


def test_only_prune_deletes_what_a_file_does_not_name(api: Api) -> None:
    put(api, "prune-old")
    everything = api.http.get("/v1/schedules", params={"limit": 1000}).json()["items"]
    kept = [one["name"] for one in everything if one["name"] != "prune-old"]
    assert apply(api, [{"name": "prune-new", **DAILY}])["deleted"] == []
    planned = apply(api, [{"name": "prune-new", **DAILY}], prune=True, dry_run=True)
    assert set(planned["deleted"]) == {"prune-old", *kept} - {"prune-new"}
    assert "prune-old" in names(api, prefix="prune-")


def test_all_that_fit_are_paused_and_resumed(api: Api) -> None:
    for name, tags in {"bulk-a": ["night"], "bulk-b": ["night"], "bulk-c": ["day"]}.items():
        put(api, name, tags=tags, note="what it is for")
    answer = api.http.post("/v1/schedules/pause", json={"tag": "night", "prefix": "bulk-", "note": "the move"})
    assert answer.json() == {"changed": ["bulk-a", "bulk-b"], "refused": {}}
    paused = api.http.get("/v1/schedules/bulk-a").json()
    assert (paused["note"], paused["pause_note"]) == ("what it is for", "the move")
    assert names(api, prefix="bulk-", paused=True) == ["bulk-a", "bulk-b"]
    assert api.http.post("/v1/schedules/pause", json={"tag": "night", "prefix": "bulk-"}).json()["changed"] == []
    assert api.http.post("/v1/schedules/resume", json={"prefix": "bulk-"}).json()["changed"] == ["bulk-a", "bulk-b"]
    resumed = api.http.get("/v1/schedules/bulk-a").json()
    assert (resumed["note"], resumed["pause_note"]) == ("what it is for", None)
    for unclear in ({}, {"all": True, "tag": "x"}, {"all": False}, {"tags": ["x"]}):
        assert api.http.post("/v1/schedules/pause", json=unclear).status_code == 422


def test_a_calendar_is_made_used_changed_and_kept_while_it_is_used(api: Api) -> None:
    days = ["12-25", "2030-01-02"]
    assert api.http.put("/v1/calendars/holidays", json={"days": days}).json()["days"] == days
    put(api, "working", calendars=["holidays"])
    assert api.http.get("/v1/schedules/working").json()["reads"].endswith("but for the days of the calendar holidays")
    assert api.http.delete("/v1/calendars/holidays").status_code == 409
    api.http.delete("/v1/schedules/working")
    assert api.http.delete("/v1/calendars/holidays").status_code == 204
    assert api.http.get("/v1/calendars/holidays").status_code == 404
    for bad in ("25-12", "2026-02-29", "13-01", "", "2026-1-1"):
        assert fields_of(api.http.put("/v1/calendars/bad", json={"days": [bad]})) == ["days.0"]


def test_a_saved_schedule_says_when_it_fires_and_what_may_not_be_meant(api: Api) -> None:
    saved = put(api, "linted", cron="30 2 * * *", timezone="America/New_York")
    assert saved["reads"] == "at 02:30 every day, America/New_York"
    assert [one["code"] for one in saved["warnings"]] == ["skipped_time"]
    assert api.http.get("/v1/schedules/linted/lint").json()["warnings"] == saved["warnings"]
    assert put(api, "linted", cron="17 5 * * *")["warnings"] == []


def test_a_backfill_is_asked_for_listed_and_cancelled(api: Api) -> None:
    put(api, "past")
    window = {"start_at": "2026-01-01T00:00:00Z", "end_at": "2026-01-08T00:00:00Z"}
    made = api.http.post("/v1/schedules/past/backfill", json=window | {"parallel": 2})
    assert made.status_code == 201
    assert (made.json()["nominal_times"], made.json()["state"]) == (7, "running")
    key = {"Idempotency-Key": "once"}
    first, again = (api.http.post("/v1/schedules/past/backfill", json=window, headers=key).json() for _ in range(2))
    assert first == again
    api.http.post(f"/v1/schedules/past/backfills/{first['id']}/cancel").raise_for_status()
    assert [one["id"] for one in api.http.get("/v1/schedules/past/backfills").json()["items"]] == [
        first["id"],
        made.json()["id"],
    ]
    path = f"/v1/schedules/past/backfills/{made.json()['id']}/cancel"
    assert (api.http.post(path).status_code, api.http.post(path).status_code) == (204, 404)
    for bad, field in {
        "2026-01-01T00:00:00": "start_at",
        "2999-01-01T00:00:00Z": "end_at",
        "yesterday": "start_at",
    }.items():
        assert fields_of(api.http.post("/v1/schedules/past/backfill", json=window | {"start_at": bad})) == [field]
    assert api.http.post("/v1/schedules/unknown/backfill", json=window).status_code == 404


@pytest.mark.parametrize("word", ["pause", "resume", "apply", "preview"])
def test_a_schedule_may_have_the_name_of_a_path(api: Api, word: str) -> None:
    assert put(api, word)["name"] == word
    assert api.http.get(f"/v1/schedules/{word}").json()["name"] == word
    assert api.http.post(f"/v1/schedules/{word}/pause").json()["paused"] is True
    assert api.http.delete(f"/v1/schedules/{word}").status_code == 204


def test_stats_say_who_leads(api: Api) -> None:
    assert api.http.get("/v1/stats").json()["leader"] is None
    api.stack.postgres.execute(
        "INSERT INTO mainspring.leader (duty, holder, term, expires_at, taken_at)"
        " VALUES ('leader', gen_random_uuid(), 3, clock_timestamp() + interval '1 minute', clock_timestamp())",
        api.database_url,
    )
    leader = api.http.get("/v1/stats").json()["leader"]
    assert leader["term"] == 3
    assert 0 <= leader["age_seconds"] < 60


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("POST", "/v1/schedules", '{"name": "odd", "task": "t", "cron": "\\ud800"}', "cron"),
        (
            "POST",
            "/v1/schedules",
            '{"name": "odd", "task": "t", "cron": "* * * * *", "timezone": "\\ud800"}',
            "timezone",
        ),
        ("POST", "/v1/schedules", '{"name": "odd", "task": "t", "cron": ' + "[" * 300 + "]" * 300 + "}", "cron"),
        ("POST", "/v1/schedules/pause", '{"prefix": "\\u0000"}', "prefix"),
        ("POST", "/v1/schedules/resume", '{"tag": "\\ud800"}', "tag"),
        ("GET", "/v1/schedules?prefix=%00", None, "prefix"),
        ("GET", "/v1/schedules?tag=%00", None, "tag"),
    ],
)
def test_what_can_not_be_kept_is_refused_by_its_field(
    api: Api, method: str, path: str, body: str | None, field: str
) -> None:
    assert fields_of(api.http.request(method, path, content=body)) == [field]


def test_a_calendar_that_leaves_out_every_time_of_a_schedule_is_said_at_once(api: Api) -> None:
    api.http.put("/v1/calendars/christmas", json={"days": ["12-25"]}).raise_for_status()
    began = time.monotonic()
    saved = put(api, "never", cron="0 6 25 12 *", calendars=["christmas"])
    assert time.monotonic() - began < 3
    assert saved["next_nominal_at"] is None
    assert [one["code"] for one in saved["warnings"]] == ["never_again"]
