"""What users test their tasks with."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from mainspring import InvalidInput, JobContext, Permanent, RetryAfter, RetryPolicy, Snooze, task
from mainspring.client import Client
from mainspring.testing import Recorder, run_inline

tries: list[int] = []


@pytest.fixture(autouse=True)
def none_tried():
    tries.clear()


@task("t.flaky", retry=RetryPolicy(max_attempts=3, base=1, factor=10, cap=60))
async def flaky(ctx: JobContext, *, failures: int) -> dict[str, int]:
    tries.append(ctx.attempt)
    if ctx.attempt <= failures:
        raise ValueError("not yet")
    return {"attempt": ctx.attempt}


@task("t.plain")
def plain(ctx: JobContext, *, words: list[str]) -> str:
    return " ".join(words)


@task("t.says")
async def says(ctx: JobContext, *, what: str) -> None:
    tries.append(ctx.attempt)
    if ctx.attempt > 1 and what != "permanent":
        return
    raise {"permanent": Permanent("no"), "later": RetryAfter(120), "snooze": Snooze(60)}[what]


@task("t.slow", timeout=0.05, retry=RetryPolicy(max_attempts=1))
async def slow(ctx: JobContext) -> None:
    await asyncio.sleep(60)


async def test_a_failed_attempt_is_tried_again_and_nothing_waits():
    run = await run_inline(flaky, flaky.request(failures=2))
    assert (run.state, run.result, tries) == ("succeeded", {"attempt": 3}, [1, 2, 3])
    assert [one.outcome for one in run.attempts] == ["failed", "failed", "succeeded"]
    # Equal jitter, without chance: three quarters of 1 s and of 10 s.
    assert run.waited == timedelta(seconds=8.25)


async def test_a_used_up_budget_ends_dead_with_the_error():
    run = await run_inline(flaky, flaky.request(failures=9))
    assert (run.state, run.result, len(run.attempts)) == ("dead", None, 3)
    assert (run.attempts[-1].error.type, run.attempts[-1].error.message) == ("ValueError", "not yet")


async def test_a_plain_function_runs_too():
    assert (await run_inline(plain, plain.request(words=["a", "b"]))).result == "a b"


@pytest.mark.parametrize(
    ("what", "state", "outcomes", "waited"),
    [
        ("permanent", "dead", ["failed"], 0),
        ("later", "succeeded", ["failed", "succeeded"], 120),
        ("snooze", "succeeded", ["snoozed", "succeeded"], 60),
    ],
)
async def test_a_handler_s_signals_mean_what_they_mean_in_a_worker(what, state, outcomes, waited):
    run = await run_inline(says, says.request(what=what))
    assert (run.state, [one.outcome for one in run.attempts]) == (state, outcomes)
    assert run.waited == timedelta(seconds=waited)


async def test_a_deadline_is_a_timeout():
    run = await run_inline(slow, slow.request())
    assert (run.state, run.attempts[0].outcome) == ("dead", "timed_out")


@task("t.outside", retry=RetryPolicy(max_attempts=1))
async def outside(ctx: JobContext) -> None:
    raise TimeoutError("the gateway")


async def test_a_timeout_that_the_handler_raises_is_a_failure_of_its_own():
    run = await run_inline(outside, outside.request())
    assert (run.attempts[0].outcome, run.attempts[0].error.message) == ("failed", "the gateway")


async def test_another_task_s_request_is_refused():
    with pytest.raises(InvalidInput, match="task"):
        await run_inline(plain, slow.request())


async def test_a_recorder_keeps_what_was_submitted():
    recorder = Recorder()
    await recorder.submit(plain.request(words=["a"]), priority=1)
    await recorder.submit_many([plain.request(words=["b"]), slow.request()])
    assert recorder.payloads(plain) == [{"words": ["a"]}, {"words": ["b"]}]
    assert [request.priority for request in recorder.requests] == [1, None, None]
    with pytest.raises(InvalidInput, match="priority"):
        await recorder.submit(slow.request(), priority=10)


def test_a_recorder_can_stand_where_a_client_stands():
    for name in ("submit", "submit_many"):
        one, other = getattr(Recorder, name), getattr(Client, name)
        assert one.__annotations__ == other.__annotations__
        assert one.__kwdefaults__ == other.__kwdefaults__
