"""Handlers that take many jobs in one call, on real services: each job ends on its own."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from .system import System
from .test_fleet_limits import submit_many


@pytest.fixture
def batching(system: System) -> System:
    system.worker(slots=20)
    return system.ready()


def ends(system: System, task: str, *wishes: str) -> list[dict[str, Any]]:
    ids = submit_many(system, task, [{"n": n, "then": then} for n, then in enumerate(wishes)])
    return [system.final(job_id) for job_id in ids]


def calls(system: System) -> list[str]:
    return system.query("SELECT what FROM ledger ORDER BY what").split("\n")


def test_jobs_that_come_together_are_one_call_and_end_each_on_its_own(batching: System) -> None:
    jobs = ends(batching, "fleet.batch", "return", "say", "fail", "fail_once", "permanent", "unfit")
    states = [job["state"] for job in jobs]
    assert states == ["succeeded", "succeeded", "dead", "succeeded", "dead", "dead"]
    assert [len(job["attempts"]) for job in jobs] == [1, 1, 3, 2, 1, 3]
    assert (jobs[0]["result"], jobs[1]["result"]) == (None, {"n": 1, "of": 6})
    assert [job["reason"] for job in jobs if job["state"] == "dead"] == ["exhausted", "permanent", "exhausted"]
    assert "result.when" in jobs[5]["attempts"][0]["error"]["message"]
    assert calls(batching).count("of 6") == 6


def test_a_batch_is_never_larger_than_it_may_be(batching: System) -> None:
    ends(batching, "fleet.batch", *["return"] * 20)
    sizes = [int(what.removeprefix("of ")) for what in calls(batching)]
    assert max(sizes) == 8
    assert len(sizes) == 20


def test_what_the_handler_raises_is_the_end_of_those_that_it_has_not_answered(batching: System) -> None:
    said, raised, after = ends(batching, "fleet.batch", "say", "raise", "return")
    assert [one["outcome"] for one in said["attempts"]] == ["succeeded"]
    for job in (raised, after):
        assert [one["outcome"] for one in job["attempts"]] == ["failed", "succeeded"]
        assert job["attempts"][0]["error"]["message"] == "the whole call failed"


def test_a_payload_that_the_model_refuses_is_the_end_of_its_job_alone(batching: System) -> None:
    # Not through the api, which would refuse it: what was submitted before the task was known.
    batching.query("""SELECT mainspring.submit('fleet.batch', '{"n": "one"}', 'fleet')""")
    good = ends(batching, "fleet.batch", "say")[0]
    assert good["state"] == "succeeded"
    batching.until(lambda: batching.count("SELECT count(*) FROM mainspring.dead_letters") == 1)
    assert batching.query("SELECT reason, error ->> 'type' FROM mainspring.dead_letters") == "permanent|InvalidInput"


def test_writes_are_one_atom_with_the_completions_of_those_that_succeed(batching: System) -> None:
    jobs = ends(batching, "fleet.batch_effects", "return", "say", "return")
    assert [job["state"] for job in jobs] == ["succeeded"] * 3
    assert batching.query("SELECT count(*), count(DISTINCT job) FROM effects") == "3|3"


def test_an_exception_undoes_the_writes_of_all(batching: System) -> None:
    jobs = ends(batching, "fleet.batch_effects", "say", "raise", "return")
    for job in jobs:
        assert [one["outcome"] for one in job["attempts"]] == ["failed", "succeeded"]
    assert batching.query("SELECT count(*), count(DISTINCT job) FROM effects WHERE attempt = 2") == "3|3"
    assert batching.count("SELECT count(*) FROM effects WHERE attempt = 1") == 0


def test_a_job_whose_effect_exists_keeps_no_other_from_its_own(batching: System) -> None:
    """Nothing is committed with it: the others run again, uncounted."""
    batching.query(
        "INSERT INTO mainspring.completions (idempotency_key, job_id, fence) VALUES ('k', gen_random_uuid(), 1)"
    )
    fields = {"task": "fleet.batch_effects", "queue": "fleet"}
    # The key becomes complete only after the claim has looked: a second job with it, in the same batch.
    batching.query("DELETE FROM mainspring.completions WHERE idempotency_key = 'k'")
    jobs = [
        {**fields, "payload": {"n": 0}, "delay_seconds": 1},
        {**fields, "payload": {"n": 1}, "delay_seconds": 1, "idempotency_key": "k"},
        {**fields, "payload": {"n": 2}, "delay_seconds": 1},
    ]
    answer = batching.http.post("/v1/jobs/batch", json={"jobs": jobs})
    ids = [one["id"] for one in answer.json()["jobs"]]
    # The key becomes complete just after the claim has looked.
    batching.query(f"""
        CREATE FUNCTION complete_k() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF NEW.state = 'running' AND NEW.id = '{ids[1]}' AND NEW.attempt = 1 THEN
                INSERT INTO mainspring.completions (idempotency_key, job_id, fence) VALUES ('k', gen_random_uuid(), 1)
                ON CONFLICT DO NOTHING;
            END IF;
            RETURN NEW;
        END $$;
        CREATE TRIGGER complete_k BEFORE UPDATE ON mainspring.live_jobs FOR EACH ROW EXECUTE FUNCTION complete_k();
    """)
    ended = [batching.final(job_id) for job_id in ids]
    assert [job["state"] for job in ended] == ["succeeded"] * 3
    assert ended[1]["reason"] == "duplicate"
    for job in (ended[0], ended[2]):
        assert [one["outcome"] for one in job["attempts"]] == ["handed_back", "succeeded"]
        assert job["attempts_used"] == 1
    effects = batching.query("SELECT string_agg(job::text, ' ' ORDER BY job) FROM effects").split()
    assert effects == sorted([ids[0], ids[2]])


def test_a_plain_function_takes_a_batch_in_a_thread(batching: System) -> None:
    jobs = ends(batching, "fleet.batch_in_thread", *["return"] * 5)
    assert [job["result"] for job in jobs] == list(range(5))


def test_a_cancel_of_one_stops_the_call_and_the_others_run_again_uncounted(batching: System) -> None:
    ids = submit_many(
        batching, "fleet.batch", [{"n": n, "then": then} for n, then in enumerate(["say", "block", "return"])]
    )
    batching.started(ids[1])
    batching.http.post(f"/v1/jobs/{ids[1]}/cancel").raise_for_status()
    said, blocked, after = [batching.final(job_id) for job_id in ids]
    assert (said["state"], blocked["state"], after["state"]) == ("succeeded", "cancelled", "succeeded")
    assert [one["outcome"] for one in said["attempts"]] == ["succeeded"]
    assert [one["outcome"] for one in after["attempts"]] == ["handed_back", "succeeded"]
    assert after["attempts_used"] == 1


def test_a_killed_runner_takes_a_whole_batch_and_each_runs_again_alone(batching: System) -> None:
    ids = submit_many(batching, "fleet.batch", [{"n": 1, "then": "block"}, {"n": 2}])
    batching.started(ids[1])
    os.kill(batching.count("SELECT max(pid) FROM ledger"), signal.SIGKILL)
    for job_id in ids:
        job = batching.final(job_id)
        assert [one["outcome"] for one in job["attempts"]] == ["worker_lost", "succeeded"]
    assert sorted(calls(batching)) == ["of 1", "of 1", "of 2", "of 2"]
