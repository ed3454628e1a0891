"""The command line against a real api: what it prints where, and its exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .api import Api, some_rows


@pytest.fixture(scope="module", autouse=True)
def rows(api: Api) -> None:
    some_rows(api)


def mainspring(
    api: Api, *arguments: str, url: str | None = None, columns: int = 200
) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"MAINSPRING_API_URL": url or api.url, "COLUMNS": str(columns)}
    command = [sys.executable, "-m", "mainspring.cli.main", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)


def document(api: Api, *arguments: str) -> Any:
    done = mainspring(api, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_submitted_job_is_listed_shown_and_cancelled(api: Api) -> None:
    job = document(api, "submit", "cli.task", "--payload", '{"a": 1}', "--queue", "cli", "--delay", "3600")
    assert [one["id"] for one in document(api, "jobs", "list", "--queue", "cli")["items"]] == [job["id"]]
    assert document(api, "jobs", "show", job["id"])["payload"] == {"a": 1}
    assert document(api, "jobs", "cancel", job["id"])["state"] == "cancelled"
    assert document(api, "jobs", "retry", job["id"])["state"] == "scheduled"


def test_lists_gather_their_pages_and_say_on_stderr_that_there_is_more(api: Api) -> None:
    for _ in range(3):
        document(api, "submit", "cli.many", "--queue", "many")
    done = mainspring(api, "jobs", "list", "--queue", "many", "--limit", "2")
    assert done.stdout.count("cli.many") == 2
    assert "more with --limit" in done.stderr
    assert len(document(api, "jobs", "list", "--queue", "many", "--limit", "5000")["items"]) == 3


def test_a_narrow_screen_cuts_no_id(api: Api) -> None:
    job = document(api, "submit", "cli.narrow", "--queue", "narrow")
    assert job["id"] in mainspring(api, "jobs", "list", "--queue", "narrow", columns=80).stdout


def test_an_empty_list_prints_nothing_on_stdout(api: Api) -> None:
    done = mainspring(api, "jobs", "list", "--queue", "nobody")
    assert (done.returncode, done.stdout, done.stderr.strip()) == (0, "", "none")


def test_queues_are_set_paused_and_resumed(api: Api) -> None:
    assert document(api, "queues", "set", "cli-queue", "--concurrency", "3")["concurrency"] == 3
    assert document(api, "queues", "pause", "cli-queue", "--note", "a deploy")["note"] == "a deploy"
    assert document(api, "queues", "resume", "cli-queue")["paused"] is False
    assert document(api, "queues", "set", "cli-queue", "--concurrency", "none")["concurrency"] is None
    assert "cli-queue" in mainspring(api, "queues", "list").stdout
    assert document(api, "workers", "list")["items"] == []


def test_dead_letters_are_seen_discarded_and_redriven(api: Api) -> None:
    (letter,) = document(api, "dlq", "list", "--task", "t")["items"]
    assert document(api, "dlq", "groups")["items"][0]["fingerprint"] == "ValueError:t"
    assert document(api, "dlq", "show", letter["id"])["state"] == "dead"
    assert mainspring(api, "dlq", "redrive").returncode == 2
    assert document(api, "dlq", "redrive", "--fingerprint", "ValueError:t") == {"redriven": 1}
    assert document(api, "dlq", "redrive", "--all") == {"redriven": 0}
    assert mainspring(api, "dlq", "discard", letter["id"]).returncode == 3


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("submit", "Bad Task"), 2, "task"),
        (("submit", "t", "--payload", "{"), 2, "payload"),
        (("jobs", "list", "--state", "finished"), 2, "state.0"),
        (("jobs", "show", "no-id"), 2, "job_id"),
        (("jobs", "show", "01999999-0000-7000-8000-000000000000"), 3, "no job"),
        (("queues", "pause", "nobody"), 3, "no queue"),
        (("queues", "set", "q"), 2, "queues set --help"),
    ],
)
def test_an_error_is_one_line_on_stderr_with_its_exit_code(
    api: Api, arguments: tuple[str, ...], code: int, words: str
) -> None:
    done = mainspring(api, *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_an_api_that_is_away_is_exit_code_4(api: Api) -> None:
    done = mainspring(api, "jobs", "list", url="http://127.0.0.1:1")
    assert (done.returncode, done.stdout) == (4, "")
    assert "127.0.0.1:1" in done.stderr


def test_schedules_are_saved_looked_at_changed_and_deleted(api: Api) -> None:
    assert document(api, "schedules", "save", "cli-a", "--task", "t", "--cron", "0 6 * * *")["cron"] == "0 6 * * *"
    changed = document(api, "schedules", "save", "cli-a", "--every", "60", "--tag", "x")
    assert (changed["cron"], changed["every_seconds"], changed["tags"]) == (None, 60, ["x"])
    assert document(api, "schedules", "show", "cli-a")["reads"] == "every minute"
    assert document(api, "schedules", "pause", "--tag", "x")["changed"] == ["cli-a"]
    assert document(api, "schedules", "resume", "cli-a")["paused"] is False
    assert document(api, "schedules", "fires", "cli-a")["items"] == []
    past = ("--from", "2026-01-01T00:00:00Z", "--until", "2026-01-01T01:00:00Z")
    assert document(api, "schedules", "backfill", "cli-a", *past)["nominal_times"] == 60
    assert len(document(api, "schedules", "backfills", "cli-a")["items"]) == 1
    assert mainspring(api, "schedules", "delete", "cli-a").returncode == 0
    assert mainspring(api, "schedules", "show", "cli-a").returncode == 3
    assert mainspring(api, "schedules", "pause").returncode == 2
    assert "--task" in mainspring(api, "schedules", "save", "cli-b", "--cron", "@daily").stderr


def test_a_file_of_schedules_is_shown_asked_about_and_applied(api: Api, tmp_path: Path) -> None:
    file = tmp_path / "schedules.yaml"
    file.write_text(
        "schedules:\n  - name: filed\n    task: t\n    cron: '30 2 * * mon'\n    timezone: Europe/Berlin\n"
        "    start_at: 2030-01-01T00:00:00Z\n"
    )
    shown = mainspring(api, "schedules", "apply", str(file), "--dry-run")
    assert "+ filed" in shown.stdout
    assert "1 created" in shown.stderr
    assert mainspring(api, "schedules", "show", "filed").returncode == 3
    assert mainspring(api, "schedules", "apply", str(file)).returncode == 1  # nobody says yes
    assert mainspring(api, "schedules", "apply", str(file), "--yes").returncode == 0
    assert document(api, "schedules", "show", "filed")["start_at"] == "2030-01-01T00:00:00Z"
    file.write_text(file.read_text().replace("mon", "tue"))
    assert (
        'cron: "30 2 * * mon" → "30 2 * * tue"' in mainspring(api, "schedules", "apply", str(file), "--dry-run").stdout
    )
    odd = ("- a", "schedules: 3", "schedules: [1]", "schedules: [{name: x}]", "{", "schedules: []\nmore: 1")
    odder = (
        "schedules: [{name: .nan}]",
        "schedules: [{2026-03-01: x, note: 2026-02-30}]",
        "schedules: &a [*a]",
        "a: !!binary eA==",
    )
    for text in (*odd, *odder):
        file.write_text(text)
        assert mainspring(api, "schedules", "apply", str(file), "--yes").returncode == 2, text
    assert mainspring(api, "schedules", "apply", str(tmp_path / "no.yaml")).returncode == 3


def test_an_expression_is_read_and_linted_without_a_server(api: Api) -> None:
    done = mainspring(api, "schedules", "lint", "30 2 * * mon", "--timezone", "Europe/Berlin", url="http://127.0.0.1:1")
    assert done.stdout.startswith("at 02:30 on Mondays, Europe/Berlin\n")
    assert mainspring(api, "schedules", "lint", "0 0 30 2 *").returncode == 2
    assert mainspring(api, "schedules", "lint").returncode == 2


def test_queues_and_limits_are_applied_from_a_file(api: Api, tmp_path: Path) -> None:
    file = tmp_path / "queues.yaml"
    file.write_text("queues: [{name: cli-filed, concurrency: 3}]\nlimits: []\n")
    assert "+ queue cli-filed" in mainspring(api, "queues", "apply", str(file), "--dry-run").stdout
    assert mainspring(api, "queues", "apply", str(file), "--yes").returncode == 0
    assert document(api, "queues", "apply", str(file), "--dry-run")["unchanged"] == ["queue cli-filed"]
    file.write_text("schedules: []\n")
    assert mainspring(api, "queues", "apply", str(file), "--yes").returncode == 2


def test_limits_are_set_listed_shown_and_deleted(api: Api) -> None:
    arguments = (
        "limits",
        "set",
        "cli-rate",
        "--rate",
        "100",
        "--period",
        "60",
        "--task",
        "cli.rated",
        "--per",
        "customer.id",
    )
    made = document(api, *arguments)
    assert (made["kind"], made["most"], made["burst"], made["per"]) == ("rate", 100, 100, "customer.id")
    assert "cli-rate" in mainspring(api, "limits", "list").stdout
    assert document(api, "limits", "show", "cli-rate")["keys"] == []
    assert mainspring(api, "limits", "delete", "cli-rate").returncode == 0
    assert mainspring(api, "limits", "delete", "cli-rate").returncode == 3
    assert mainspring(api, "limits", "set", "cli-bad", "--queue", "q").returncode == 2
    assert mainspring(api, "limits", "set", "cli-bad", "--concurrency", "1").returncode == 2


def test_why_says_what_stands_before_a_job(api: Api) -> None:
    job = document(api, "submit", "nobody.knows", "--delay", "3590")
    told = mainspring(api, "jobs", "why", job["id"])
    assert (told.returncode, told.stdout.splitlines()[0][:16]) == (0, "1. due in 59 min")
    assert document(api, "jobs", "why", job["id"])["blockers"][0]["kind"] == "not_due"


def test_calendars_are_saved_listed_and_deleted(api: Api) -> None:
    assert document(api, "calendars", "save", "cli-days", "12-25", "2030-01-01")["days"] == ["12-25", "2030-01-01"]
    assert "cli-days" in mainspring(api, "calendars", "list").stdout
    assert mainspring(api, "calendars", "delete", "cli-days").returncode == 0
    assert mainspring(api, "calendars", "save", "bad", "30-12-2026").returncode == 2
