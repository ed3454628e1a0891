"""What users send to the api, and what comes back: lists, filters, pages, bad input, dead letters."""

from __future__ import annotations

import asyncio
import json
import socket
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from mainspring.domain.job import JobRequest
from mainspring.domain.states import State
from mainspring.runtime.submit import submit_in
from mainspring.store.pool import Database, connect

from .api import Api
from .rows import put_job

JOBS = "SELECT count(*) FROM mainspring.live_jobs"


def put_jobs(api: Api, *states: State, **columns: Any) -> list[UUID]:
    async def work() -> list[UUID]:
        async with Database(api.database_url, "test") as database, database.connection() as connection:
            return [await put_job(connection, state, **columns) for state in states]

    return asyncio.run(work())


def put_letter(api: Api, job_id: UUID, fingerprint: str = "ValueError:t", **columns: str) -> None:
    row = {"kind": "job", "queue": "q", "task": "t", "reason": "exhausted", "outcome": "failed"} | columns
    names = ", ".join(["id", "job_id", "fingerprint", *row])
    values = ", ".join(f"'{value}'" for value in (job_id, job_id, fingerprint, *row.values()))
    api.stack.postgres.execute(f"INSERT INTO mainspring.dead_letters ({names}) VALUES ({values})", api.database_url)


def submit(api: Api, **fields: Any) -> httpx.Response:
    return api.http.post("/v1/jobs", json={"task": "t", **fields})


def errors_of(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    return [error["field"] for error in answer.json()["errors"]]


def ids_of(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [item["id"] for item in answer.json()["items"]]


def test_jobs_are_listed_the_newest_first_page_by_page(api: Api) -> None:
    made = [str(submit(api, queue="paged").json()["id"]) for _ in range(7)]
    found: list[str] = []
    cursor = None
    for _ in range(4):
        page = api.http.get("/v1/jobs", params={"queue": "paged", "limit": 2} | ({"cursor": cursor} if cursor else {}))
        found += ids_of(page)
        cursor = page.json()["next"]
    assert found == made[::-1]
    assert cursor is None


def test_a_page_stays_put_while_jobs_are_added(api: Api) -> None:
    first = [submit(api, queue="moving").json()["id"] for _ in range(3)]
    page = api.http.get("/v1/jobs", params={"queue": "moving", "limit": 2})
    submit(api, queue="moving")
    rest = api.http.get("/v1/jobs", params={"queue": "moving", "limit": 2, "cursor": page.json()["next"]})
    assert ids_of(page) + ids_of(rest) == first[::-1]


def test_each_filter_finds_its_jobs_and_no_others(api: Api) -> None:
    wanted = submit(api, task="odd.one", queue="filtered", tags=["blue", "red"]).json()["id"]
    submit(api, task="even.one", queue="filtered", tags=["red"])
    for asked in (
        {"task": "odd.one"},
        {"tag": "blue"},
        {"queue": "filtered", "task": "odd.one", "state": ["scheduled", "dead"]},
    ):
        assert ids_of(api.http.get("/v1/jobs", params=asked)) == [wanted], asked
    assert ids_of(api.http.get("/v1/jobs", params={"task": "odd.one", "state": "dead"})) == []


def test_states_and_finished_jobs_are_found_together(api: Api) -> None:
    made = put_jobs(api, *State, queue="mixed")
    # Within a millisecond ids are in the order of chance.
    newest_first = [str(one) for one in sorted(made, reverse=True)]
    assert ids_of(api.http.get("/v1/jobs", params={"queue": "mixed"})) == newest_first
    for state, one in zip(State, made, strict=True):
        assert ids_of(api.http.get("/v1/jobs", params={"queue": "mixed", "state": state.value})) == [str(one)]


def test_jobs_are_found_by_the_time_of_their_submission(api: Api) -> None:
    one = submit(api, queue="timed").json()
    at = datetime.fromisoformat(one["created_at"])
    around = {"since": (at - timedelta(seconds=1)).isoformat(), "until": (at + timedelta(seconds=1)).isoformat()}
    assert ids_of(api.http.get("/v1/jobs", params={"queue": "timed", **around})) == [one["id"]]
    later = {"since": (at + timedelta(seconds=1)).isoformat()}
    assert ids_of(api.http.get("/v1/jobs", params={"queue": "timed", **later})) == []


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"state": "finished"}, "state.0"),
        ({"queue": "Nö"}, "queue"),
        ({"queue": "a" * 64}, "queue"),
        ({"tag": "a\0"}, "tag"),
        ({"since": "2026-01-01T00:00:00"}, "since"),
        ({"until": "0001-01-01T00:00:00Z"}, "until"),
        ({"cursor": "forged"}, "cursor"),
        ({"limit": "0"}, "limit"),
        ({"limit": "1001"}, "limit"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_bad_filter_is_named(api: Api, asked: dict[str, str], field: str) -> None:
    assert errors_of(api.http.get("/v1/jobs", params=asked)) == [field]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"task": "t", "payload": {"a": NaN}}', "body"),
        (b'{"task": "t", "payload": {"a": 1e400}}', "body"),
        (b'{"task": "t", "payload": {"a": 1e5000}}', "body"),
        (b'{"task": "t", "payload": {"a": 1e131071}}', "body"),
        (b'{"task": "t", "payload": {"a": -Infinity}}', "body"),
        (b'{"task": "t", "payload": {"a": "x\\u0000y"}}', "payload.a"),
        (b'{"task": "t", "payload": {"a\\u0000": 1}}', "payload.a\\x00"),
        (b'{"task": "t", "payload": {"a": "\\ud800"}}', "payload.a"),
        (b'{"task": "t", "payload": {"a": {"b": ["\\udfff"]}}}', "payload.a.b.0"),
        (b'{"task": "t", "payload": ' + b'{"a":' * 200 + b"1" + b"}" * 200 + b"}", "payload" + ".a" * 65),
        (b'{"task": "t", "payload": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "body"),
        (b'{"task": "t", "payload": [1]}', "payload"),
        (b'{"task": "t", "payload": {"a": "' + b"x" * 262_144 + b'"}}', "payload"),
        (b'{"task": "t", "payload": {"a": ' + b"9" * 5000 + b"}}", "body"),
        (b'{"task": "a/b"}', "task"),
        (b'{"task": "a#b"}', "task"),
        (b'{"task": "' + b"t" * 300 + b'"}', "task"),
        (b'{"task": "t", "queue": "*.q"}', "queue"),
        (b'{"task": "t", "queue": ""}', "queue"),
        (b'{"task": "t", "priority": 10}', "priority"),
        (b'{"task": "t", "priority": "5"}', "priority"),
        (b'{"task": "t", "priority": true}', "priority"),
        (b'{"task": "t", "run_at": "2026-12-24T18:00:00"}', "run_at"),
        (b'{"task": "t", "run_at": "9999-12-31T23:59:59-12:00"}', "run_at"),
        (b'{"task": "t", "run_at": 1e18}', "run_at"),
        (b'{"task": "t", "delay_seconds": -1}', "delay_seconds"),
        (b'{"task": "t", "delay_seconds": 1e12}', "delay_seconds"),
        (b'{"task": "t", "timeout_seconds": 0}', "timeout_seconds"),
        (b'{"task": "t", "timeout_seconds": 1e300}', "timeout_seconds"),
        (b'{"task": "t", "retry": {"max_attempts": 0}}', "retry.max_attempts"),
        (b'{"task": "t", "retry": {"max_attempts": 1e3}}', "retry.max_attempts"),
        (b'{"task": "t", "tags": ["a\\n"]}', "tags.0"),
        (b'{"task": "t", "idempotency_key": ""}', "idempotency_key"),
        (b'{"task": "t", "run_at": 1767225600}', "run_at"),
        (b'{"task": "t", "run_at": "1767225600"}', "run_at"),
        (b'{"task": "t", "run_at": "2026-01-31"}', "run_at"),
        (b'{"task": "t", "run_at": true}', "run_at"),
        (b'{"task": "t", "idempotency_key": "' + b"k" * 256 + b'"}', "idempotency_key"),
        (b'{"task": "t", "idempotency_key": "a\\nb"}', "idempotency_key"),
        (b'{"task": "t", "colour": 1}', "colour"),
        (b"[]", "body"),
        (b"", "body"),
        (b"{", "body"),
        (b"\xff", "body"),
        (b"null", "body"),
    ],
)
def test_w06_w07_bad_input_names_its_field_and_stores_nothing(api: Api, body: bytes, field: str) -> None:
    before = api.count(JOBS)
    assert errors_of(api.http.post("/v1/jobs", content=body)) == [field]
    in_batch = b'{"jobs": [{"task": "t"}, ' + body + b"]}"
    answer = api.http.post("/v1/jobs/batch", content=in_batch)
    assert answer.status_code == 422
    assert api.count(JOBS) == before


def test_w07_numbers_come_back_digit_for_digit(api: Api) -> None:
    job_id = api.http.post(
        "/v1/jobs", content=b'{"task": "t", "payload": {"a": 9007199254740993, "b": 1.0, "c": -0.0}}'
    )
    shown = api.http.get(f"/v1/jobs/{job_id.json()['id']}").text
    assert '"a":9007199254740993' in shown.replace(" ", "")
    assert ids_of(api.http.get("/v1/jobs", params={"limit": 1})) == [job_id.json()["id"]]


def test_a_repeated_trigger_makes_one_job(api: Api) -> None:
    api.http.put("/v1/schedules/pressed", json={"task": "t", "cron": "0 6 * * *"})
    before = api.count(JOBS)
    key = {"Idempotency-Key": "press-1"}
    first, again = (api.http.post("/v1/schedules/pressed/trigger", headers=key) for _ in range(2))
    assert (first.status_code, first.json()) == (201, again.json())
    assert again.headers["idempotency-replayed"] == "true"
    assert api.count(JOBS) == before + 1
    # The first answer is given again though the schedule has changed, and is gone.
    api.http.put("/v1/schedules/pressed", json={"task": "other", "cron": "0 6 * * *"})
    assert api.http.post("/v1/schedules/pressed/trigger", headers=key).json() == first.json()
    api.http.delete("/v1/schedules/pressed")
    assert api.http.post("/v1/schedules/pressed/trigger", headers=key).json() == first.json()
    assert errors_of(api.http.post("/v1/schedules/elsewhere/trigger", headers=key)) == ["idempotency_key"]
    assert submit(api).status_code == 201


def test_a_repeated_creation_of_a_schedule_gets_the_first_answer(api: Api) -> None:
    key = {"Idempotency-Key": "order-1"}  # used for a job elsewhere: the two kinds don't meet
    body = {"name": "made-once", "task": "t", "cron": "0 6 * * *"}
    first, again = (api.http.post("/v1/schedules", json=body, headers=key) for _ in range(2))
    assert (first.status_code, first.json()) == (201, again.json())
    assert (first.headers.get("idempotency-replayed"), again.headers["idempotency-replayed"]) == (None, "true")
    assert errors_of(api.http.post("/v1/schedules", json=body | {"task": "u"}, headers=key)) == ["idempotency_key"]
    assert errors_of(api.http.post("/v1/schedules", json=body, headers={"Idempotency-Key": "k" * 256}))
    assert api.http.post("/v1/schedules", json=body).status_code == 409


def test_a01_a_key_gives_its_answer_again_and_refuses_another_request(api: Api) -> None:
    key = {"Idempotency-Key": "order-1"}
    first = api.http.post("/v1/jobs", json={"task": "t", "payload": {"a": 1, "b": 2}}, headers=key)
    again = api.http.post("/v1/jobs", json={"task": "t", "payload": {"b": 2, "a": 1}}, headers=key)
    assert (first.status_code, again.status_code, again.json()) == (201, 201, first.json())
    assert (first.headers.get("idempotency-replayed"), again.headers["idempotency-replayed"]) == (None, "true")
    assert errors_of(api.http.post("/v1/jobs", json={"task": "u"}, headers=key)) == ["idempotency_key"]
    for bad in ("", "k" * 256, "k" * 10_000):
        assert errors_of(api.http.post("/v1/jobs", json={"task": "t"}, headers={"Idempotency-Key": bad}))


async def test_a01_a_key_that_an_open_transaction_holds_is_409_for_its_own_caller_alone(api: Api) -> None:
    holder = await connect(api.database_url, "test")
    try:
        transaction = holder.transaction()
        await transaction.start()
        await submit_in(holder, [JobRequest("t", idempotency_key="held")])
        async with httpx.AsyncClient(base_url=api.url, timeout=30) as client:
            one = client.post
            answers = await asyncio.gather(
                *(one("/v1/jobs", json={"task": "t", "idempotency_key": key}) for key in ("held", "free", "free-too"))
            )
            assert [answer.status_code for answer in answers] == [409, 201, 201]
            await transaction.commit()
            again = await one("/v1/jobs", json={"task": "t", "idempotency_key": "held"})
        assert (again.status_code, again.headers["idempotency-replayed"]) == (201, "true")
    finally:
        await holder.close()


def test_o01_the_caller_s_trace_is_kept_and_a_malformed_one_is_no_error(api: Api) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    for header, kept in ((f"00-{trace}-00f067aa0ba902b7-01", trace), ("nonsense", ""), ("x" * 2048, "")):
        accepted = api.http.post("/v1/jobs", json={"task": "t"}, headers={"traceparent": header})
        assert accepted.status_code == 201
        assert api.http.get(f"/v1/jobs/{accepted.json()['id']}").json()["trace_id"] == (
            kept or UUID(accepted.json()["id"]).hex
        )


def test_a02_fifty_at_once_with_one_key_are_one_job(api: Api) -> None:
    async def send_all() -> list[httpx.Response]:
        async with httpx.AsyncClient(base_url=api.url, timeout=30) as client:
            one = client.post
            return await asyncio.gather(
                *(one("/v1/jobs", json={"task": "t", "queue": "once", "idempotency_key": "only"}) for _ in range(50))
            )

    answers = asyncio.run(send_all())
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert api.count(f"{JOBS} WHERE queue = 'once'") == 1


def test_a07_an_oversize_body_is_cut_off_whether_its_length_is_said_or_not(api: Api) -> None:
    def chunks() -> Any:
        for _ in range(40):
            yield b" " * 1_000_000

    assert api.http.post("/v1/jobs", content=chunks()).status_code == 413
    assert api.http.post("/v1/jobs", content=b" " * 17_000_000).status_code == 413
    many = {"jobs": [{"task": "t"}] * 10_001}
    assert errors_of(api.http.post("/v1/jobs/batch", json=many)) == ["jobs"]


def test_a07_a_body_that_never_ends_is_cut_off(api: Api) -> None:
    host, port = api.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(b"POST /v1/jobs HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n{")
        connection.settimeout(10)
        assert connection.recv(1000).startswith(b"HTTP/1.1 408")


def test_dead_letters_are_grouped_by_how_they_died(api: Api) -> None:
    for fingerprint, count in (("a:t", 3), ("b:t", 1)):
        for one in put_jobs(api, *[State.DEAD] * count, queue="grouped"):
            put_letter(api, one, fingerprint, queue="grouped")
    groups = api.http.get("/v1/dead-letters/groups", params={"queue": "grouped"}).json()["items"]
    assert [(one["fingerprint"], one["letters"]) for one in groups] == [("a:t", 3), ("b:t", 1)]
    letters = api.http.get("/v1/dead-letters", params={"fingerprint": "a:t"}).json()["items"]
    assert {one["fingerprint"] for one in letters} == {"a:t"}


def test_x02_redriving_a_group_many_times_at_once_redrives_each_job_once(api: Api) -> None:
    made = put_jobs(api, *[State.DEAD] * 20, queue="redriven")
    for one in made:
        put_letter(api, one, "r:t", queue="redriven")

    async def press_five_times() -> list[int]:
        async with httpx.AsyncClient(base_url=api.url, timeout=30) as client:
            body = {"fingerprint": "r:t"}
            answers = await asyncio.gather(*(client.post("/v1/dead-letters/redrive", json=body) for _ in range(5)))
        return [answer.json()["redriven"] for answer in answers]

    assert sum(asyncio.run(press_five_times())) == 20
    job = api.http.get(f"/v1/jobs/{made[0]}").json()
    assert (job["state"], job["attempts_used"], [one["event"] for one in job["events"]]) == (
        "scheduled",
        0,
        ["redrive"],
    )
    assert api.http.post("/v1/dead-letters/redrive", json={"fingerprint": "r:t"}).json() == {"redriven": 0}


def test_a_redrive_takes_no_more_than_its_limit_the_oldest_first(api: Api) -> None:
    made = put_jobs(api, *[State.DEAD] * 3, queue="limited")
    for one in made:
        put_letter(api, one, "l:t", queue="limited")
    assert api.http.post("/v1/dead-letters/redrive", json={"queue": "limited", "limit": 2}).json() == {"redriven": 2}
    left = api.http.get("/v1/dead-letters", params={"queue": "limited"}).json()["items"]
    assert [one["id"] for one in left] == [str(made[2])]


def test_a_discarded_job_stays_dead_and_its_history_says_why(api: Api) -> None:
    (one,) = put_jobs(api, State.DEAD, queue="discarded")
    put_letter(api, one, queue="discarded")
    assert api.http.post(f"/v1/dead-letters/{one}/discard", json={"why": "customer gone"}).status_code == 204
    job = api.http.get(f"/v1/jobs/{one}").json()
    assert (job["state"], job["reason"]) == ("dead", "discarded")
    assert [(event["event"], event["details"]["why"]) for event in job["events"]] == [("discard", "customer gone")]
    assert api.http.get("/v1/dead-letters", params={"queue": "discarded"}).json()["items"] == []
    assert api.http.post(f"/v1/dead-letters/{one}/discard", json={}).status_code == 404


def test_a_message_without_a_job_is_discarded_but_not_redriven(api: Api) -> None:
    letter_id = uuid4()
    api.stack.postgres.execute(
        "INSERT INTO mainspring.dead_letters (id, kind, reason, fingerprint, body)"
        f" VALUES ('{letter_id}', 'message', 'not_json', 'message:not_json', 'x')",
        api.database_url,
    )
    assert api.http.post(f"/v1/dead-letters/{letter_id}/redrive").status_code == 409
    assert api.http.post(f"/v1/dead-letters/{letter_id}/discard", json={}).status_code == 204
    assert api.http.post(f"/v1/dead-letters/{letter_id}/redrive").status_code == 404


@pytest.mark.parametrize(
    "path", ["/v1/queues/a%00", "/v1/schedules/a%00b", "/v1/schedules/Nö", "/v1/queues/" + "q" * 300]
)
def test_a_name_that_none_can_have_is_bad_input(api: Api, path: str) -> None:
    assert errors_of(api.http.get(path)) == ["name"]


def test_a_note_that_postgres_refuses_is_bad_input(api: Api) -> None:
    api.http.put("/v1/queues/noted", json={})
    assert errors_of(api.http.post("/v1/queues/noted/pause", params={"note": "a\0"})) == ["note"]
    bad = {"task": "t", "cron": "0 6 * * *", "note": "\ud800"}
    assert errors_of(api.http.put("/v1/schedules/noted", content=json.dumps(bad).encode())) == ["note"]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"cron": "0 0 30 2 *"}, "cron"),
        ({"cron": "0 0 31 4,6 *"}, "cron"),
        ({"cron": "* * * * * *"}, "cron"),
        ({"cron": "@reboot"}, "cron"),
        ({"cron": 5}, "cron"),
        ({"cron": "0 6 * * *", "timezone": "Europe/Atlantis"}, "timezone"),
        ({"cron": "0 6 * * *", "timezone": "../../etc/passwd"}, "timezone"),
        ({"cron": "0 6 * * *", "timezone": "a\0"}, "timezone"),
        ({"cron": "0 6 * * *", "max_catchup": 10**12}, "max_catchup"),
        ({"every_seconds": 0}, "every_seconds"),
        ({"every_seconds": 1e300}, "every_seconds"),
        ({"cron": "0 6 * * *", "every_seconds": 5}, "cron"),
        ({}, "cron"),
        ({"at": "2026-01-01T00:00:00"}, "at"),
    ],
)
def test_c08_c10_c11_a_schedule_that_can_never_fire_is_refused(api: Api, fields: dict[str, Any], field: str) -> None:
    assert field in errors_of(api.http.put("/v1/schedules/bad", json={"task": "t", **fields}))
    assert api.http.get("/v1/schedules/bad").status_code == 404


def test_a_queue_s_defaults_are_taken_where_neither_request_nor_task_says_otherwise(api: Api) -> None:
    retry = {"max_attempts": 7, "base": 2.0, "factor": 3.0, "cap": 90.0}
    defaults = {"default_priority": 2, "default_timeout_seconds": 12.5, "default_retry": retry}
    saved = api.http.put("/v1/queues/lane", json=defaults).json()
    assert {name: saved[name] for name in defaults} == defaults
    plain = submit(api, queue="lane").json()
    assert (plain["priority"], plain["timeout_seconds"], plain["max_attempts"]) == (2, 12.5, 7)
    said = submit(api, queue="lane", priority=9, timeout_seconds=3, retry={"max_attempts": 1}).json()
    assert (said["priority"], said["timeout_seconds"], said["max_attempts"]) == (9, 3, 1)
    from_sql = api.stack.postgres.execute("SELECT mainspring.submit('t', queue => 'lane')", api.database_url)
    job = api.http.get(f"/v1/jobs/{from_sql.strip()}").json()
    assert (job["priority"], job["timeout_seconds"], job["max_attempts"]) == (2, 12.5, 7)
    lifted = api.http.put("/v1/queues/lane", json=dict.fromkeys(defaults)).json()
    assert {lifted[name] for name in defaults} == {None}
    assert submit(api, queue="lane").json()["priority"] == 5
    assert errors_of(api.http.put("/v1/queues/lane", json={"default_priority": 10})) == ["default_priority"]
    assert errors_of(api.http.put("/v1/queues/lane", json={"default_retry": {"max_attempts": 0}}))
