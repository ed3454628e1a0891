"""Unique jobs: one of those that are the same, whoever submits them and whenever."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from mainspring.client import Client
from mainspring.domain.errors import InvalidInput
from mainspring.domain.job import JobRequest
from mainspring.domain.states import State
from mainspring.domain.unique import Then, Unique
from mainspring.runtime.submit import Accepted, Submitter
from mainspring.runtime.wake import Wake
from mainspring.store import jobs
from mainspring.store.pool import Database

from .api import Api


@pytest.fixture
def submitter(database: Database) -> Submitter:
    return Submitter(database, Wake(database))


def request(n: int = 1, then: Then = Then.KEEP, **fields: Any) -> JobRequest:
    of_unique = {name: fields.pop(name) for name in ("period", "states", "key") if name in fields}
    return JobRequest("t", json.dumps({"n": n}), unique=Unique(**{"key": "k", "then": then} | of_unique), **fields)


async def all_jobs(database: Database) -> list[Any]:
    async with database.connection() as connection:
        return list(await connection.fetch("SELECT * FROM mainspring.jobs ORDER BY id"))


async def set_state(database: Database, job_id: UUID, state: State) -> None:
    async with database.connection() as connection:
        if state is State.CANCELLED:
            await jobs.cancel(connection, job_id, "test")
            return
        lease = "gen_random_uuid(), now()" if state is State.RUNNING else "NULL, NULL"
        await connection.execute(
            f"UPDATE mainspring.live_jobs SET (state, claim_id, lease_until) = ($2, {lease}) WHERE id = $1",
            *(job_id, state.value),
        )


async def test_of_many_at_one_moment_one_is_made(database: Database, submitter: Submitter) -> None:
    others = [submitter, *(Submitter(database, Wake(database)) for _ in range(3))]
    answers = await asyncio.gather(*(one.submit(request(n)) for n in range(15) for one in others))
    [job] = await all_jobs(database)
    assert {answer.id for answer in answers} == {job["id"]}
    assert sum(answer.unique is None for answer in answers) == 1


async def test_when_it_has_ended_the_next_one_is_made(database: Database, submitter: Submitter) -> None:
    first = await submitter.submit(request())
    await set_state(database, first.id, State.RUNNING)
    assert (await submitter.submit(request())).id == first.id
    await set_state(database, first.id, State.SCHEDULED)
    await set_state(database, first.id, State.CANCELLED)
    second = await submitter.submit(request())
    assert (second.unique, len(await all_jobs(database))) == (None, 2)
    assert (await submitter.submit(request())).id == second.id


async def test_for_a_period_also_when_it_has_succeeded(database: Database, submitter: Submitter) -> None:
    first = await submitter.submit(request(period=timedelta(minutes=1)))
    await succeed(database, first.id, State.SUCCEEDED)
    again = await submitter.submit(request(period=timedelta(minutes=1)))
    assert (again.id, json.loads(again.answer)["state"]) == (first.id, "succeeded")
    async with database.connection() as connection:
        await connection.execute("UPDATE mainspring.unique_jobs SET made_at = made_at - interval '61 seconds'")
    assert (await submitter.submit(request(period=timedelta(minutes=1)))).id != first.id


async def test_replace_gives_the_waiting_one_the_last_payload_and_keeps_its_time(
    database: Database, submitter: Submitter
) -> None:
    minute = timedelta(minutes=1)
    first = await submitter.submit(request(1, Then.REPLACE, delay=minute))
    before = (await all_jobs(database))[0]
    last = await submitter.submit(request(2, Then.REPLACE, delay=minute, priority=0))
    [job] = await all_jobs(database)
    assert (last.id, last.unique, json.loads(last.answer)["payload"]) == (first.id, Then.REPLACE, {"n": 2})
    assert (json.loads(job["payload"]), job["priority"], job["due_at"]) == ({"n": 2}, 0, before["due_at"])


async def test_postpone_moves_its_time_too(database: Database, submitter: Submitter) -> None:
    await submitter.submit(request(1, Then.POSTPONE, delay=timedelta(seconds=1)))
    await submitter.submit(request(2, Then.POSTPONE, delay=timedelta(minutes=1)))
    [job] = await all_jobs(database)
    assert json.loads(job["payload"]) == {"n": 2}
    assert timedelta(seconds=50) < job["due_at"] - datetime.now(UTC) < timedelta(seconds=61)


async def test_what_runs_is_not_replaced_and_the_next_waits_beside_it(database: Database, submitter: Submitter) -> None:
    first = await submitter.submit(request(1, Then.REPLACE))
    await set_state(database, first.id, State.RUNNING)
    second = await submitter.submit(request(2, Then.REPLACE))
    third = await submitter.submit(request(3, Then.REPLACE))
    assert (second.unique, third.id) == (None, second.id)
    found = [(json.loads(job["payload"])["n"], job["state"]) for job in await all_jobs(database)]
    assert found == [(1, "running"), (3, "scheduled")]


async def test_within_a_batch_too(database: Database, submitter: Submitter) -> None:
    keep = [request(n, key="keep") for n in (1, 2)]
    replace = [request(n, Then.REPLACE, key="replace") for n in (3, 4)]
    postpone = [request(n, Then.POSTPONE, key="p", delay=timedelta(hours=n)) for n in (5, 6)]
    accepted = await submitter.submit_many([*keep, *replace, *postpone, JobRequest("t")])
    assert len({one.id for one in accepted}) == 4
    found = [json.loads(job["payload"]) for job in await all_jobs(database)]
    assert found == [{"n": 1}, {"n": 4}, {"n": 6}, {}]
    assert (await all_jobs(database))[2]["due_at"] - datetime.now(UTC) > timedelta(hours=5.9)


async def test_an_idempotency_key_is_answered_with_the_job_that_was_there(
    database: Database, submitter: Submitter
) -> None:
    first = await submitter.submit(request())
    kept = await submitter.submit(request(idempotency_key="i"))
    again = await submitter.submit(request(idempotency_key="i"))
    assert (kept.id, again.id, again.is_replayed, again.answer) == (first.id, first.id, True, kept.answer)
    with pytest.raises(InvalidInput, match="another request"):
        await submitter.submit(request(idempotency_key="i", period=timedelta(minutes=1)))
    assert len(await all_jobs(database)) == 1


async def test_in_the_callers_transaction_it_comes_and_goes_with_it(database: Database, database_url: str) -> None:
    async with Client(database_url) as client, database.connection() as connection:
        transaction = connection.transaction()
        await transaction.start()
        gone = await client.submit(JobRequest("t"), unique=Unique("k"), connection=connection)
        await transaction.rollback()
        stays = await client.submit(JobRequest("t"), unique=Unique("k"))
        assert stays != gone
        assert [job["id"] for job in await all_jobs(database)] == [stays]


async def test_a_bad_neighbour_in_the_same_commit_costs_nobody_else(database: Database, submitter: Submitter) -> None:
    await submitter.submit(JobRequest("t", idempotency_key="k"))
    bad = JobRequest("t", '{"other": 1}', idempotency_key="k")
    outcomes = await asyncio.gather(*map(submitter.submit, [request(), bad, request()]), return_exceptions=True)
    assert [isinstance(one, Accepted) for one in outcomes] == [True, False, True]
    assert len(await all_jobs(database)) == 2


class Model:
    """The plainest model of unique jobs: who has each place since when, and what each job holds."""

    def __init__(self, database: Database, seed: int) -> None:
        self.database = database
        self.submitter = Submitter(database, Wake(database))
        self.chance = random.Random(seed)
        self.now = 0
        self.places: dict[str, tuple[UUID, int]] = {}
        self.jobs: dict[UUID, tuple[int, str]] = {}
        self.asked = itertools.count()

    async def submit(self) -> None:
        wishes = [
            (next(self.asked), self.chance.choice("ab"), self.chance.choice([*Then]), self.chance.choice([None, 60]))
            for _ in range(self.chance.randint(1, 3))
        ]
        requests = [
            request(n, then, key=key, period=timedelta(seconds=period) if period else None, delay=timedelta(hours=1))
            for n, key, then, period in wishes
        ]
        answers = await self.submitter.submit_many(requests)
        for answer, (n, key, then, period) in zip(answers, wishes, strict=True):
            job_id = self._has_place(key, then, period)
            assert (answer.id == job_id, answer.unique) == (True, then) if job_id else answer.unique is None
            if job_id is None:
                self.places[key] = answer.id, self.now
            if job_id is None or then is not Then.KEEP:
                self.jobs[answer.id] = n, "scheduled"

    def _has_place(self, key: str, then: Then, period: int | None) -> UUID | None:
        if key not in self.places:
            return None
        job_id, since = self.places[key]
        state = self.jobs[job_id][1]
        is_over = period is not None and self.now - since >= period
        counts = state in {"scheduled", "running"} or (period is not None and state == "succeeded")
        can_stay = then is Then.KEEP or state == "scheduled"
        return job_id if counts and can_stay and not is_over else None

    async def move(self) -> None:
        """One of the jobs goes on."""
        if going := [(id_, n, state) for id_, (n, state) in self.jobs.items() if state in {"scheduled", "running"}]:
            job_id, n, state = self.chance.choice(going)
            after = self.chance.choice(["running", "cancelled"] if state == "scheduled" else ["scheduled", "succeeded"])
            await (succeed if after == "succeeded" else set_state)(self.database, job_id, State(after))
            self.jobs[job_id] = n, after

    async def wait(self) -> None:
        self.now += 40
        async with self.database.connection() as connection:
            await connection.execute("UPDATE mainspring.unique_jobs SET made_at = made_at - interval '40 s'")

    async def check(self) -> None:
        found = {row["id"]: (json.loads(row["payload"])["n"], row["state"]) for row in await all_jobs(self.database)}
        assert found == self.jobs


async def succeed(database: Database, job_id: UUID, _: State) -> None:
    async with database.connection() as connection:
        await connection.execute(
            "INSERT INTO mainspring.finished_jobs (id, queue, task, state, priority, due_at, fence, attempt,"
            " attempts_used, max_attempts, timeout_seconds, finished_at)"
            " SELECT id, queue, task, 'succeeded', priority, due_at, fence, 1, 1, 4, 60, now()"
            " FROM mainspring.live_jobs WHERE id = $1",
            job_id,
        )
        await connection.execute("DELETE FROM mainspring.live_jobs WHERE id = $1", job_id)


@pytest.mark.parametrize("seed", range(6))
async def test_whatever_happens_it_is_as_in_the_plainest_model(database: Database, seed: int) -> None:
    model = Model(database, seed)
    for _ in range(120):
        await model.chance.choice([model.submit, model.submit, model.move, model.move, model.wait])()
        await model.check()


def test_over_http_the_answer_says_which_it_is(api: Api) -> None:
    body = {"task": "t", "payload": {"a": 1}, "unique": {}}
    first = api.http.post("/v1/jobs", json=body)
    again = api.http.post("/v1/jobs", json=body)
    assert (first.status_code, again.status_code, again.headers["unique-job"]) == (201, 200, "keep")
    assert "unique-job" not in first.headers
    assert again.json() == first.json()
    assert again.headers["location"] == f"/v1/jobs/{first.json()['id']}"
    batch = api.http.post("/v1/jobs/batch", json={"jobs": [body, body | {"payload": {"a": 2}}]}).json()["jobs"]
    assert batch[0]["id"] == first.json()["id"] != batch[1]["id"]


@pytest.mark.parametrize(
    ("unique", "field"),
    [
        ({"key": ""}, "unique.key"),
        ({"period_seconds": 0}, "unique.period_seconds"),
        ({"period_seconds": 1e9}, "unique.period_seconds"),
        ({"states": ["succeeded"]}, "unique.period_seconds"),
        ({"states": ["asleep"]}, "unique.states.0"),
        ({"then": "explode"}, "unique.then"),
        ({"by": "x"}, "unique.by"),
    ],
)
def test_over_http_what_is_wrong_is_named(api: Api, unique: dict[str, Any], field: str) -> None:
    answer = api.http.post("/v1/jobs", json={"task": "t", "unique": unique})
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)
