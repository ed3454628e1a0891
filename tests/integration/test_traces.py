"""O01: one trace holds a job's whole life, whoever sent it and whatever is restarted meanwhile."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from mainspring.devstack.fleet import Fleet

from .otlp import Received, Receiver, grpc_receiver, http_receiver
from .system import System

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER = f"00-{TRACE}-00f067aa0ba902b7-01"


def send_to(fleet: Fleet, receiver: Receiver, protocol: str) -> Receiver:
    fleet.set_environment("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint)
    fleet.set_environment("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
    fleet.set_environment("OTEL_BSP_SCHEDULE_DELAY", "100")
    return receiver


@pytest.fixture
def over_grpc(fleet: Fleet) -> Iterator[Receiver]:
    with grpc_receiver() as receiver:
        yield send_to(fleet, receiver, "grpc")


@pytest.fixture
def over_http(fleet: Fleet) -> Iterator[Receiver]:
    with http_receiver() as receiver:
        yield send_to(fleet, receiver, "http/protobuf")


def named(spans: list[Received], name: str) -> list[Received]:
    return [one for one in spans if one.name == name]


@pytest.mark.timeout(120)
def test_o01_a_job_that_fails_dies_and_is_redriven_is_one_trace(over_grpc: Receiver, system: System) -> None:
    system.worker()
    system.ready()
    answer = system.http.post(
        "/v1/jobs", json={"task": "fleet.fail", "payload": {"times": 4}}, headers={"traceparent": CALLER}
    )
    job_id = answer.json()["id"]
    system.until(lambda: system.job(job_id)["state"] == "retrying" or system.job(job_id)["attempts"])
    system.dispatcher.kill()
    system.dispatcher.restart()
    assert system.final(job_id)["state"] == "dead"
    system.http.post(f"/v1/jobs/{job_id}/retry").raise_for_status()
    assert system.final(job_id)["state"] == "succeeded"

    names = {"submit", "release fleet", "dispatch fleet", "run fleet", "bury fleet", "redrive"}
    over_grpc.in_trace(TRACE, names)
    with over_grpc.changed:
        over_grpc.changed.wait_for(lambda: len(named(over_grpc.spans, "run fleet")) == 5, 20)
    spans = over_grpc.in_trace(TRACE, names)

    (request,) = named(spans, "POST /v1/jobs")
    assert (request.parent_id, request.service) == ("00f067aa0ba902b7", "mainspring-api")
    (submit,) = named(spans, "submit")
    assert submit.parent_id == request.span_id
    runs = named(spans, "run fleet")
    assert [one.attributes["mainspring.outcome"] for one in runs] == [*["failed"] * 4, "succeeded"]
    assert [one.attributes["mainspring.attempt"] for one in runs] == [1, 2, 3, 4, 5]
    assert [one.is_failed for one in runs] == [*[True] * 4, False]
    assert all("exception" in one.events for one in runs[:4])
    assert {one.service for one in runs} == {"mainspring-worker"}
    for one in spans:
        if one is not request:
            assert one.parent_id in {other.span_id for other in spans}, one
            assert one.attributes["messaging.system"] == "mainspring"
        assert one.started_at <= one.ended_at
    for one in named(spans, "release fleet"):
        assert one.attributes["messaging.message.id"] == job_id
        assert one.links


@pytest.mark.timeout(120)
def test_o01_jobs_released_together_are_linked_with_their_batch(over_http: Receiver, system: System) -> None:
    system.worker()
    system.ready()
    system.http.post("/v1/queues/fleet/pause")
    ids = [system.submit("fleet.add", {"a": 1, "b": number}) for number in range(5)]
    system.http.post("/v1/queues/fleet/resume")
    for job_id in ids:
        assert system.final(job_id)["state"] == "succeeded"
    for job_id in ids:
        spans = over_http.in_trace(system.job(job_id)["trace_id"], {"submit", "release fleet", "run fleet"})
        (release,) = named(spans, "release fleet")
        ((batch_trace, batch_id),) = release.links
        (batch,) = [one for one in over_http.spans if one.span_id == batch_id]
        assert batch.trace_id == batch_trace
        assert (release.trace_id, release.span_id) in batch.links


@pytest.mark.timeout(120)
def test_o01_a_job_from_sql_has_a_trace_named_by_its_id(over_http: Receiver, system: System) -> None:
    system.worker()
    system.ready()
    job_id = system.query("SELECT mainspring.submit('fleet.add', '{\"a\": 1, \"b\": 2}', queue => 'fleet')").strip()
    job = system.final(job_id)
    assert job["trace_id"] == job_id.replace("-", "")
    spans = over_http.in_trace(job["trace_id"], {"release fleet", "dispatch fleet", "run fleet"})
    assert {one.parent_id for one in spans} == {""}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("task", ["fleet.traced", "fleet.traced_in_thread"])
def test_o01_a_span_of_a_handler_is_a_child_of_its_attempt(over_http: Receiver, system: System, task: str) -> None:
    system.worker()
    system.ready()
    job = system.final(system.submit(task))
    spans = over_http.in_trace(job["trace_id"], {"run fleet", "charge the card"})
    (run,) = named(spans, "run fleet")
    (inner,) = named(spans, "charge the card")
    assert (inner.parent_id, inner.service) == (run.span_id, "mainspring-runner")
    if job["result"]:
        assert job["result"].split("-")[1:3] == [run.trace_id, run.span_id]


@pytest.mark.timeout(120)
def test_o01_a_collector_that_is_away_costs_nothing(fleet: Fleet, system: System) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:  # it accepts, and never answers
        fleet.set_environment("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{listener.getsockname()[1]}")
        worker = system.worker()
        worker.wait_ready()
        job_id = system.submit("fleet.add", {"a": 1, "b": 2})
        assert system.final(job_id)["state"] == "succeeded"
        assert worker.stop() == 0
