"""The forecast over real rows: durations that were measured, slots that there are, a proposal and its apply."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest

from mainspring.domain.forecast import Load
from mainspring.domain.states import State
from mainspring.runtime.forecast import Forecasts, look_ahead
from mainspring.store import fleet, forecast, jobs
from mainspring.store.pool import Conn, Database

from .api import Api
from .rows import put_job

HERD = 60


def on(api: Api, work: Callable[[Conn], Awaitable[Any]]) -> Any:
    """Do something straight in the api's database."""

    async def run() -> Any:
        async with Database(api.database_url, "test") as database, database.connection() as connection:
            return await work(connection)

    return asyncio.run(run())


async def put_runs(connection: Conn, seconds: float, count: int, **columns: Any) -> None:
    now = await fleet.now(connection)
    for number in range(count):
        ended_at = now - timedelta(minutes=number + 1)
        started_at = ended_at - timedelta(seconds=seconds)
        await put_job(connection, State.SUCCEEDED, started_at=started_at, finished_at=ended_at, **columns)


@pytest.fixture
def herd(api: Api) -> Iterator[Api]:
    """Sixty schedules of one midnight, of half a minute each; others that don't count; a worker of 4 slots."""

    async def rows(connection: Conn) -> None:
        await connection.execute("DELETE FROM mainspring.schedules")
        await put_runs(connection, 30.0, 5, task="herd.task")
        worker = fleet.Worker(jobs.new_id(), "h", 1, "v", ("q",), ("t",), (), 4, 4)
        await connection.execute("DELETE FROM mainspring.workers")
        await fleet.beat_worker(connection, worker)

    on(api, rows)
    for number in range(HERD):
        api.http.put(f"/v1/schedules/herd-{number:02}", json={"task": "herd.task", "cron": "0 0 * * *"})
    api.http.put("/v1/schedules/hourly", json={"task": "new.task", "cron": "30 * * * *"})
    for name in ("paused", "broken", "over"):
        api.http.put(f"/v1/schedules/{name}", json={"task": "herd.task", "cron": "* * * * *"})
    api.http.post("/v1/schedules/paused/pause")
    on(api, lambda connection: connection.execute("UPDATE mainspring.schedules SET broken = 'x' WHERE name = 'broken'"))
    on(
        api,
        lambda connection: connection.execute(
            "UPDATE mainspring.schedules SET next_nominal_at = NULL WHERE name = 'over'"
        ),
    )
    # A change of jitter makes the api forget what it has worked out.
    api.http.post("/v1/forecast/suggestion/apply", json={"schedules": [{"name": "hourly", "jitter_seconds": 1}]})
    return api


def fires_to_come(api: Api, found: dict[str, Any]) -> int:
    """In the window, whose first bucket may have begun before a fire that is over by now."""
    end = datetime.fromisoformat(found["end"])

    def of(name: str, period: timedelta) -> int:
        first = datetime.fromisoformat(api.http.get(f"/v1/schedules/{name}").json()["next_nominal_at"])
        return -((first - end) // period)

    return HERD * of("herd-00", timedelta(days=1)) + of("hourly", timedelta(hours=1))


def test_the_forecast_names_the_peak_the_slots_and_who_makes_it(herd: Api) -> None:
    found = herd.http.get("/v1/forecast").json()
    assert (found["bucket_seconds"], len(found["buckets"]), found["incomplete"]) == (60, 1440, False)
    assert (found["slots"], found["schedules"], found["unknown_durations"]) == (4, HERD + 1, 1)
    peak = found["peaks"][0]
    assert peak["at"].endswith("T00:00:00Z")
    assert (peak["fires"], peak["slots_needed"]) == (HERD, HERD / 2)
    assert [one["name"] for one in peak["schedules"]] == [f"herd-{number:02}" for number in range(10)]
    assert sum(one["fires"] for one in found["buckets"]) == fires_to_come(herd, found)


def test_a_week_has_buckets_of_ten_minutes(herd: Api) -> None:
    found = herd.http.get("/v1/forecast", params={"hours": 168}).json()
    assert (found["bucket_seconds"], len(found["buckets"])) == (600, 7 * 24 * 6)
    assert sum(one["fires"] for one in found["buckets"]) == fires_to_come(herd, found)
    assert fires_to_come(herd, found) in {HERD * days + hours for days in (6, 7) for hours in (167, 168)}


def test_a_proposal_is_the_same_each_time_and_applied_it_lowers_the_peak(herd: Api) -> None:
    proposal = herd.http.get("/v1/forecast/suggestion").json()
    assert [one["name"] for one in proposal["schedules"]] == [f"herd-{number:02}" for number in range(HERD)]
    assert proposal == herd.http.get("/v1/forecast/suggestion").json()
    assert proposal["before"]["slots_needed"] == HERD / 2
    body = {"schedules": [{name: one[name] for name in ("name", "jitter_seconds")} for one in proposal["schedules"]]}
    done = herd.http.post("/v1/forecast/suggestion/apply", json=body).json()["changed"]
    assert {one["jitter_seconds"] for one in done} == {600}
    assert {one["previous_jitter_seconds"] for one in done} == {0}
    assert len(done) == HERD
    after = herd.http.get("/v1/forecast").json()["peaks"][0]
    assert after["slots_needed"] == pytest.approx(proposal["after"]["slots_needed"], abs=0.1)
    assert after["slots_needed"] < HERD / 6
    assert herd.http.post("/v1/forecast/suggestion/apply", json=body).json() == {"changed": []}


def test_where_one_name_is_unknown_nothing_is_changed(herd: Api) -> None:
    some = [{"name": name, "jitter_seconds": 60} for name in ("herd-00", "nobody")]
    answer = herd.http.post("/v1/forecast/suggestion/apply", json={"schedules": some})
    assert (answer.status_code, "nobody" in answer.json()["detail"]) == (404, True)
    assert herd.http.get("/v1/schedules/herd-00").json()["jitter_seconds"] == 0


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"schedules": []}, "schedules"),
        ({"schedules": [{"name": "a", "jitter_seconds": -1}]}, "schedules.0.jitter_seconds"),
        ({"schedules": [{"name": "a", "jitter_seconds": 86_401}]}, "schedules.0.jitter_seconds"),
        ({"schedules": [{"name": "A b", "jitter_seconds": 1}]}, "schedules.0.name"),
        ({}, "schedules"),
    ],
)
def test_bad_input_is_named(api: Api, body: Any, field: str) -> None:
    answer = api.http.post("/v1/forecast/suggestion/apply", json=body)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)


@pytest.mark.parametrize("hours", [0, 169, "x"])
def test_hours_are_1_to_168(api: Api, hours: Any) -> None:
    for path in ("/v1/forecast", "/v1/forecast/suggestion"):
        answer = api.http.get(path, params={"hours": hours})
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "hours")


def mainspring(api: Api, *arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"MAINSPRING_API_URL": api.url, "COLUMNS": "120"}
    command = [sys.executable, "-m", "mainspring.cli.main", "forecast", *arguments]
    return subprocess.run(
        command, env=environment, input=typed, capture_output=True, text=True, check=False, timeout=60
    )


def test_the_command_line_draws_a_row_for_each_hour_and_names_the_peaks(herd: Api) -> None:
    shown = mainspring(herd)
    assert shown.returncode == 0, shown.stderr
    assert len([line for line in shown.stdout.splitlines() if "│" in line or "█" in line]) in (24, 25)
    assert "herd-00 2%" in shown.stdout
    assert "30.0" in shown.stdout
    assert "no run yet" in shown.stderr
    week = mainspring(herd, "--hours", "168")
    assert len([line for line in week.stdout.splitlines() if "│" in line or "█" in line]) in (42, 43)
    assert json.loads(mainspring(herd, "--json").stdout)["slots"] == 4


def test_the_command_line_proposes_asks_and_applies(herd: Api) -> None:
    proposed = mainspring(herd, "--suggest")
    assert "herd-00" in proposed.stdout
    assert "600 s" in proposed.stdout
    assert mainspring(herd, "--apply", typed="n\n").returncode == 1
    assert herd.http.get("/v1/schedules/herd-00").json()["jitter_seconds"] == 0
    assert mainspring(herd, "--apply", "--json").returncode == 2
    assert f"set the jitter of {HERD} schedules" in mainspring(herd, "--apply", typed="y\n").stderr
    assert herd.http.get("/v1/schedules/herd-00").json()["jitter_seconds"] == 600
    assert json.loads(mainspring(herd, "--apply", "--yes", "--json").stdout) == {"changed": []}


async def test_a_schedule_s_own_runs_tell_more_than_its_task_s_and_the_last_20_count(database: Database) -> None:
    async with database.connection() as connection:
        await put_runs(connection, 10.0, 20, task="t", schedule="own")
        ended_at = await fleet.now(connection) - timedelta(hours=1)
        old = {"started_at": ended_at - timedelta(seconds=900), "finished_at": ended_at}
        await put_job(connection, State.SUCCEEDED, task="t", schedule="own", **old)
        await put_job(connection, State.CANCELLED, task="cancelled", schedule="cancelled")
        assert await forecast.mean_seconds_of_schedules(connection, ["own", "none", "cancelled"]) == {"own": 10.0}
        assert await forecast.mean_seconds_of_tasks(connection) == {"t": pytest.approx((200 + 900) / 21)}


async def put_schedules(connection: Conn, count: int, cron: str) -> None:
    await connection.execute(
        "INSERT INTO mainspring.schedules (name, task, cron, jitter_seconds, next_nominal_at)"
        " SELECT 's' || n, 't', $2, 60, clock_timestamp() FROM generate_series(1, $1::integer) AS n",
        *(count, cron),
    )


async def test_many_schedules_hold_up_no_one_else_and_a_repeat_costs_nothing(database: Database) -> None:
    async with database.connection() as connection:
        await put_schedules(connection, 3000, "*/10 * * * *")
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0.01)
            beats += 1

    beating = asyncio.create_task(beat())
    kept = Forecasts()
    first, second = await asyncio.gather(kept.forecast(database, 24), kept.forecast(database, 24))
    beating.cancel()
    assert first is second
    assert first.load.schedules == 3000
    assert sum(one.fires for one in first.buckets) == pytest.approx(3000 * 144, rel=0.01)
    # Six pages: a loop that waited for each would have come round a dozen times.
    assert beats > 40
    kept.forget()
    assert await kept.forecast(database, 24) is not first


async def test_a_forecast_that_is_cut_says_so(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    async with database.connection() as connection:
        await put_schedules(connection, 600, "0 0 * * *")
    assert not (await look_ahead(database, 24)).is_incomplete
    with monkeypatch.context() as fewer:
        fewer.setattr("mainspring.runtime.forecast.Load", partial(Load, most=100))
        cut = await look_ahead(database, 24)
    assert (cut.is_incomplete, sum(one.fires for one in cut.buckets)) == (True, 100)
    monkeypatch.setattr("mainspring.runtime.forecast._MOST_SECONDS", 0.0)
    assert (await look_ahead(database, 24)).is_incomplete
