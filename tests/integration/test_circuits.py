"""Circuits in the database, in releases and claims, over HTTP, and on real services."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from mainspring.domain.circuit import CircuitState, CircuitTerms, Signal
from mainspring.domain.errors import Misconfigured, NotFound
from mainspring.domain.job import JobRef
from mainspring.domain.retry import DEFAULT
from mainspring.domain.states import State
from mainspring.store import circuits, claims, fleet, queues
from mainspring.store.claims import ClaimAnswer, Claimant
from mainspring.store.pool import Conn, Database

from .api import Api
from .rows import live, put_job
from .system import System
from .test_fleet_limits import all_done, submit_many
from .test_lines import Scheduler, submit

TERMS = CircuitTerms(failures=2, period_seconds=3600, hold_seconds=30)
FAILED, PASSED = Signal(True, 0.0), Signal(False, 0.0)


@pytest.fixture
async def connection(database: Database) -> AsyncIterator[Conn]:
    async with database.connection() as one:
        yield one


async def know(connection: Conn, task: str = "t", circuit: str | None = "c") -> None:
    entry = {
        "name": task,
        "queue": "q",
        "timeout_seconds": 60,
        "retry": DEFAULT.as_json(),
        "payload_schema": {},
        "circuit": circuit,
        "requires": [],
    }
    async with connection.transaction():
        await fleet.upsert_tasks(connection, [entry], "1")
        await queues.make_queues(connection, ["q"])
        if circuit:
            await circuits.set_terms(connection, circuit, TERMS)


async def hear(connection: Conn, *signals: Signal, error: str | None = None) -> CircuitState:
    async with connection.transaction():
        return await circuits.hear(connection, "c", signals, error)


async def pass_time(connection: Conn) -> None:
    """The circuit may be probed now."""
    await connection.execute("UPDATE mainspring.circuits SET open_until = clock_timestamp() - interval '1 ms'")
    await connection.execute("UPDATE mainspring.limits SET shut_until = clock_timestamp() - interval '1 ms'")


async def claim(database: Database, *refs: JobRef) -> ClaimAnswer:
    worker = Claimant(uuid4(), ("t", "other"))
    return await database.run(lambda connection: claims.claim(connection, refs, uuid4(), worker, timedelta(minutes=1)))


async def test_a_worker_s_tasks_make_their_circuits(connection: Conn) -> None:
    await know(connection)
    await know(connection, "other")
    [one] = await circuits.all_circuits(connection)
    assert (one.circuit.name, one.tasks, one.circuit.terms) == ("c", ("other", "t"), TERMS)
    assert one.circuit.left(one.now) == 2
    await know(connection, "t", None)
    [one] = await circuits.all_circuits(connection)
    assert one.tasks == ("other",)


async def test_the_hundred_and_first_is_refused(connection: Conn) -> None:
    async with connection.transaction():
        await circuits.register(connection, [f"c{n}" for n in range(100)])
        await circuits.register(connection, ["c5"])
        with pytest.raises(Misconfigured, match="at most 100 circuits"):
            await circuits.register(connection, ["one-more"])


async def test_an_open_circuit_lets_nothing_start_whatever_way_it_came(connection: Conn, database: Database) -> None:
    await know(connection)
    assert await hear(connection, FAILED, FAILED, error="Timeout: 5 s") is CircuitState.CLOSED
    assert await hear(connection, FAILED) is CircuitState.OPEN
    refs = [JobRef(await put_job(connection, state), 7) for state in (State.ENQUEUED, State.ADMITTED, State.RETRYING)]
    free = JobRef(await put_job(connection, State.ENQUEUED, task="other"), 7)
    answer = await claim(database, *refs, free)
    assert set(answer.returned["circuit"]) == set(refs)
    assert [job.ref for job in answer.claimed] == [free]
    for ref in refs:
        row = await live(connection, ref.id)
        assert (row["state"], row["reason"], row["attempts_used"]) == ("blocked", "circuit", 1)
    await submit(connection, 5)
    released = await Scheduler(connection).serve()
    assert (released.count, released.waits_for_room) == (0, False)
    assert released.waits_for_rate is not None
    assert 25 < released.waits_for_rate <= 30
    [one] = await circuits.all_circuits(connection)
    assert one.last_error == "Timeout: 5 s"


async def test_then_one_probes_it_then_two_and_in_the_end_all_go(connection: Conn, database: Database) -> None:
    await know(connection)
    await hear(connection, *[FAILED] * 3)
    await submit(connection, 300)
    scheduler = Scheduler(connection)
    await scheduler.serve()
    await pass_time(connection)
    gone: list[int] = []
    for probes in (1, 2, 4, 8, 16, 32):
        released = await scheduler.serve()
        gone.append(released.count)
        refs = [ref for batch in released.batches for ref in batch.refs]
        answer = await claim(database, *refs)
        assert len(answer.claimed) == probes
        assert (await scheduler.serve()).count == 0
        await connection.execute("DELETE FROM mainspring.live_jobs WHERE state = 'running'")
        await hear(connection, *[PASSED] * probes)
    assert gone == [1, 2, 4, 8, 16, 32]
    [one] = await circuits.all_circuits(connection)
    assert one.circuit.state(one.now) is CircuitState.CLOSED
    assert (await scheduler.serve()).count == 300 - 63
    assert await connection.fetchval("SELECT count(*) FROM mainspring.limits") == 0


async def test_a_failed_probe_opens_it_again_for_longer(connection: Conn) -> None:
    await know(connection)
    await hear(connection, *[FAILED] * 3)
    await pass_time(connection)
    assert await hear(connection, FAILED) is CircuitState.OPEN
    [one] = await circuits.all_circuits(connection)
    assert one.circuit.open_until is not None
    assert 55 < (one.circuit.open_until - one.now).total_seconds() <= 60


async def test_a_task_that_comes_later_is_held_too(connection: Conn, database: Database) -> None:
    await know(connection)
    await hear(connection, *[FAILED] * 3)
    await know(connection, "other")
    ref = JobRef(await put_job(connection, State.ENQUEUED, task="other"), 7)
    assert (await claim(database, ref)).returned == {"circuit": [ref]}


async def test_it_is_opened_and_closed_by_hand(connection: Conn) -> None:
    await know(connection)
    async with connection.transaction():
        await circuits.open_for(connection, "c", timedelta(hours=2), "ops", "their maintenance")
    [one] = await circuits.all_circuits(connection)
    assert (one.circuit.state(one.now), one.opened_by, one.note) == (CircuitState.OPEN, "ops", "their maintenance")
    async with connection.transaction():
        await circuits.close(connection, "c")
    [one] = await circuits.all_circuits(connection)
    assert (one.circuit.state(one.now), one.opened_by, one.note) == (CircuitState.CLOSED, None, None)
    with pytest.raises(NotFound):
        await circuits.close(connection, "none")


async def test_a_signal_of_a_circuit_that_is_gone_is_no_error(connection: Conn) -> None:
    assert await hear(connection, FAILED) is CircuitState.CLOSED


def test_over_http_it_is_set_opened_closed_and_forgotten(api: Api) -> None:
    made = api.http.put("/v1/circuits/mail", json={"failures": 5, "share": 0.25})
    assert made.status_code == 200
    assert {name: made.json()[name] for name in ("state", "failures", "share", "left", "probes", "tasks")} == {
        "state": "closed",
        "failures": 5,
        "share": 0.25,
        "left": 5.0,
        "probes": None,
        "tasks": [],
    }
    opened = api.http.post("/v1/circuits/mail/open", json={"seconds": 60, "note": "a test"}).json()
    assert (opened["state"], opened["probes"], opened["note"]) == ("open", 1, "a test")
    # Not shown among the limits that a person makes, and not to be made as one.
    assert [one["name"] for one in api.http.get("/v1/limits").json()["items"]] == []
    refused = api.http.put("/v1/limits/circuit.mail", json={"kind": "concurrency", "most": 1, "queues": ["q"]})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "name")
    assert api.http.post("/v1/circuits/mail/close").json()["state"] == "closed"
    assert api.http.delete("/v1/circuits/mail").status_code == 204
    assert api.http.delete("/v1/circuits/mail").status_code == 404
    assert api.http.post("/v1/circuits/mail/open", json={}).status_code == 404
    assert [one["name"] for one in api.http.get("/v1/circuits").json()["items"]] == []


@pytest.mark.parametrize(
    ("field", "body"),
    [
        ("failures", {"failures": 0}),
        ("share", {"share": 1}),
        ("share", {"share": "half"}),
        ("hold_seconds", {"hold_seconds": 601}),
        ("period_seconds", {"period_seconds": 0}),
        ("shares", {"shares": 0.5}),
    ],
)
def test_what_is_wrong_with_it_is_named(api: Api, field: str, body: dict[str, Any]) -> None:
    answer = api.http.put("/v1/circuits/c", json=body)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)


def test_a_name_that_is_too_long_for_its_limit_is_refused(api: Api) -> None:
    assert api.http.put(f"/v1/circuits/{'a' * 56}", json={}).status_code == 422


def circuit(system: System, state: str) -> Callable[[], bool]:
    return lambda: system.http.get("/v1/circuits/fleet-api").json()["state"] == state


def test_an_outage_costs_no_job_its_attempts(system: System) -> None:
    """Each job may fail twice; during an outage of many times that, none does, and few are tried at all."""
    system.worker(slots=10)
    system.ready()
    system.query("CREATE TABLE outage (at timestamptz DEFAULT clock_timestamp()); INSERT INTO outage DEFAULT VALUES")
    body = {"failures": 5, "period_seconds": 3600, "hold_seconds": 1}
    system.http.put("/v1/circuits/fleet-api", json=body).raise_for_status()
    ids = submit_many(system, "fleet.calls_out", [{}] * 100)
    system.until(circuit(system, "half_open"), what="it opened, and is probed")
    system.until(
        lambda: system.count("SELECT openings FROM mainspring.circuits WHERE name = 'fleet-api'") >= 3,
        what="probes failed",
    )
    [why] = system.http.get(f"/v1/jobs/{ids[-1]}/why").json()["blockers"][:1]
    assert why["kind"] in {"circuit_open", "circuit_half_open"}
    assert "ConnectionError: no route" in why["message"]
    other = system.submit("fleet.add", {"a": 1, "b": 2})
    assert system.final(other)["result"] == 3
    failed = system.count("SELECT count(*) FROM mainspring.attempts WHERE outcome = 'failed'")
    # Its budget, what ran beside that, and a probe now and then: not all hundred.
    assert failed < 50
    system.query("DELETE FROM outage")
    all_done(system, ids)
    assert system.count("SELECT count(*) FROM mainspring.dead_letters") == 0
    # Those of its budget count, and no other.
    assert system.count("SELECT count(*) FROM mainspring.finished_jobs WHERE attempts_used > 1") <= 5
    system.until(circuit(system, "closed"), what="it is closed again")
