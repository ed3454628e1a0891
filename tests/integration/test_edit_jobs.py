"""Changing a job that waits: its priority, its time, its payload."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from mainspring.domain.job import JobRef, JobRequest
from mainspring.domain.states import State
from mainspring.store import claims, fleet, jobs, queues, release
from mainspring.store.jobs import JobEdit
from mainspring.store.pool import Conn, Database
from mainspring.store.release import Bounds

from .api import Api
from .rows import job, put_job

LEASE = timedelta(seconds=15)


async def claim(connection: Conn, ref: JobRef) -> claims.ClaimAnswer:
    return await claims.claim(connection, [ref], uuid4(), claims.Claimant(uuid4(), ("t",)), LEASE)


async def test_what_the_broker_holds_of_a_changed_job_is_stale_and_it_is_released_in_its_new_place(
    database: Database,
) -> None:
    async with database.transaction() as connection:
        await queues.make_queues(connection, ["q"])
        first, second = [one.id for one in await jobs.insert(connection, [JobRequest("t", queue="q") for _ in "ab"])]
    bounds = Bounds()
    async with database.transaction() as connection:
        (batch,) = (await release.release(connection, "q", bounds)).batches
    (sent,) = (ref for ref in batch.refs if ref.id == second)
    async with database.transaction() as connection:
        assert await jobs.edit(connection, second, JobEdit(priority=0, payload='{"a": 2}'), "test")
        assert (await claim(connection, sent)).stale == [sent]
        await jobs.insert(connection, [JobRequest("t", queue="q", priority=1)])
    async with database.transaction() as connection:
        (batch,) = (await release.release(connection, "q", bounds)).batches
        assert batch.refs[0].id == second
        (claimed,) = (await claim(connection, batch.refs[0])).claimed
        assert claimed.payload == '{"a": 2}'
        assert (await job(connection, first))["state"] == State.ENQUEUED
        (noted,) = await jobs.events_of(connection, second)
    assert (noted["event"], noted["author"]) == ("edit", "test")
    assert noted["details"] == '{"payload": "changed", "priority": 0}'


async def test_a_new_time_is_kept_and_never_lies_in_the_past(database: Database) -> None:
    async with database.transaction() as connection:
        now = await fleet.now(connection)
        for asked, due in ((now + LEASE, now + LEASE), (now - LEASE, now)):
            one = await put_job(connection, State.RETRYING)
            assert await jobs.edit(connection, one, JobEdit(run_at=asked), "test")
            row = await job(connection, one)
            assert (row["state"], row["run_at"]) == (State.SCHEDULED, asked)
            assert timedelta(0) <= row["due_at"] - due < LEASE


async def test_a_job_that_is_kept_back_for_its_schedule_gets_no_time_and_stays_kept_back(database: Database) -> None:
    async with database.transaction() as connection:
        held = await put_job(connection, State.SCHEDULED, schedule="s", reason="overlap")
        before = await job(connection, held)
        assert not await jobs.edit(connection, held, JobEdit(run_at=before["due_at"]), "test")
        assert await jobs.edit(connection, held, JobEdit(priority=0), "test")
        after = await job(connection, held)
    assert (after["priority"], after["reason"], after["due_at"]) == (0, "overlap", before["due_at"])


def edit(api: Api, job_id: str, **change: Any) -> Any:
    return api.http.patch(f"/v1/jobs/{job_id}", json=change)


def test_over_http_a_waiting_job_is_changed_and_the_history_says_by_whom(api: Api) -> None:
    made = api.http.post("/v1/jobs", json={"task": "t", "payload": {"a": 1}, "delay_seconds": 3600}).json()
    answer = edit(api, made["id"], priority=0, payload={"a": 2}, run_at="2040-01-31T09:00:00Z")
    assert answer.status_code == 200, answer.text
    changed = answer.json()
    assert (changed["priority"], changed["payload"], changed["due_at"]) == (0, {"a": 2}, "2040-01-31T09:00:00Z")
    assert [(one["event"], one["details"]["priority"]) for one in changed["events"]] == [("edit", 0)]
    api.http.post(f"/v1/jobs/{made['id']}/cancel").raise_for_status()
    ended = edit(api, made["id"], priority=1)
    assert (ended.status_code, ended.json()["detail"]) == (
        409,
        f"job {made['id']} is cancelled: only a job that waits or retries can be changed",
    )


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({}, "priority"),
        ({"priority": 10}, "priority"),
        ({"priority": "1"}, "priority"),
        ({"run_at": "tomorrow"}, "run_at"),
        ({"payload": {"a": "\u0000"}}, "payload.a"),
        ({"queue": "other"}, "queue"),
    ],
)
def test_over_http_a_bad_change_is_refused_by_its_field_and_nothing_is_changed(
    api: Api, change: dict[str, Any], field: str
) -> None:
    made = api.http.post("/v1/jobs", json={"task": "t", "delay_seconds": 3600}).json()
    answer = edit(api, made["id"], **change)
    assert answer.status_code == 422
    assert [one["field"] for one in answer.json()["errors"]] == [field]
    assert api.http.get(f"/v1/jobs/{made['id']}").json()["events"] == []


def test_over_http_a_job_that_is_not_there_is_said_so(api: Api) -> None:
    assert edit(api, str(uuid4()), priority=1).status_code == 404
