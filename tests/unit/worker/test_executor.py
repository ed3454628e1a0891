"""Running a handler: whatever it does, its attempt ends in an outcome. The database is never touched."""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID

import pytest
from pydantic import BaseModel

from mainspring import JobContext, Permanent, RetryAfter, Snooze, TaskRegistry, task
from mainspring.domain.errors import InvalidInput, StaleFence
from mainspring.domain.states import Outcome
from mainspring.worker.executor import Committed, ending_of, execute

JOB = UUID("018f22e2-79b0-7cc3-98c4-dc0c0c07398f")
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


class Untouched:
    """A database that nothing may use."""

    def __getattr__(self, name):
        raise AssertionError(f"the database's {name} was used")


@pytest.fixture
def threads():
    with ThreadPoolExecutor(max_workers=2) as pool:
        yield pool


@pytest.fixture
def run(threads):
    async def run(handler, payload=None, **changes):
        one = task("a.task")(handler)
        order = {
            "key": f"{JOB}:7",
            "id": str(JOB),
            "task": "a.task",
            "queue": "default",
            "payload": json.dumps(payload or {}),
            "attempt": 2,
            "fence": 7,
            "claim_id": str(UUID(int=1)),
            "timeout": 5.0,
            "idempotency_key": "key",
            "schedule": None,
            "nominal_at": None,
            "traceparent": None,
        }
        return await execute(order | changes, TaskRegistry([one]), Untouched(), threads)

    return run


def raising(error):
    async def handler(ctx):
        raise error

    return handler


def raising_in_a_thread(error):
    def handler(ctx):
        raise error

    return handler


def returning(value, annotation=None):
    async def handler(ctx):
        return value

    if annotation is not None:
        handler.__annotations__["return"] = annotation
    return handler


async def test_a_handler_that_returns_nothing_succeeds_without_a_result(run):
    ending = await run(returning(None))
    assert (ending.outcome, ending.result, ending.error) == (Outcome.SUCCEEDED, None, None)
    assert not isinstance(ending, Committed)


class Receipt(BaseModel):
    number: int
    at: datetime


@dataclass
class Line:
    cents: int


@pytest.mark.parametrize(
    ("value", "annotation", "result"),
    [
        (5, int, 5),
        (0, int, 0),
        (False, bool, False),
        ("", str, ""),
        ({"a": [1, 2.5, None]}, None, {"a": [1, 2.5, None]}),
        ({1: {2}}, None, {"1": [2]}),
        ((1, 2), None, [1, 2]),
        (b"bytes", None, "bytes"),
        (Decimal("1.50"), None, "1.50"),
        (NOON, None, "2026-01-31T12:00:00Z"),
        (JOB, None, str(JOB)),
        (Receipt(number=3, at=NOON), Receipt, {"number": 3, "at": "2026-01-31T12:00:00Z"}),
        (Line(cents=5), Line, {"cents": 5}),
        (9007199254740993, int, 9007199254740993),
    ],
)
async def test_w05_a_result_is_kept_as_json(run, value, annotation, result):
    ending = await run(returning(value, annotation))
    assert ending.outcome is Outcome.SUCCEEDED
    assert json.loads(ending.result) == result


@pytest.mark.parametrize(
    "value",
    [object(), b"\xff", lambda: 1, "a\0b", {"a\0": 1}, "\ud800", 10**400, "x" * 300_000, [object()]],
    ids=[
        "object",
        "bytes",
        "function",
        "NUL",
        "NUL in a key",
        "half a pair",
        "400 digits",
        "300 KB",
        "inner",
    ],
)
async def test_w05_w06_a_result_that_cannot_be_kept_is_a_failure_with_its_reason(run, value):
    ending = await run(returning(value))
    assert (ending.outcome, ending.is_permanent, ending.result) == (Outcome.FAILED, False, None)
    assert ending.error.message


async def test_an_exception_is_a_failure_with_its_error(run):
    ending = await run(raising(ValueError("boom")))
    assert (ending.outcome, ending.is_permanent, ending.delay) == (Outcome.FAILED, False, None)
    assert (ending.error.type, ending.error.message) == ("ValueError", "boom")
    assert "in handler" in ending.error.traceback


async def test_permanent_means_no_retry(run):
    ending = await run(raising(Permanent("no such customer")))
    assert (ending.outcome, ending.is_permanent) == (Outcome.FAILED, True)
    assert ending.error.message == "no such customer"


async def test_retry_after_carries_its_delay(run):
    ending = await run(raising(RetryAfter(90, "the bank is closed")))
    assert (ending.outcome, ending.delay, ending.is_permanent) == (Outcome.FAILED, timedelta(seconds=90), False)
    assert ending.error.message == "the bank is closed"


async def test_snooze_is_no_failure(run):
    ending = await run(raising(Snooze(timedelta(minutes=5))))
    assert (ending.outcome, ending.delay, ending.error) == (Outcome.SNOOZED, timedelta(minutes=5), None)


@pytest.mark.parametrize("how", [raising, raising_in_a_thread])
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), MemoryError()])
async def test_w05_what_would_end_the_process_ends_the_attempt(run, how, error):
    ending = await run(how(error))
    assert (ending.outcome, ending.error.type) == (Outcome.FAILED, type(error).__name__)


@pytest.mark.parametrize("error", [Permanent("no"), RetryAfter(5), Snooze(5), ValueError("boom")])
async def test_a_handler_in_a_thread_means_the_same_by_the_same_words(run, error):
    assert (await run(raising_in_a_thread(error))).outcome is (await run(raising(error))).outcome


async def test_a_timeout_of_the_handler_s_own_is_a_failure(run):
    async def handler(ctx):
        async with asyncio.timeout(0):
            await asyncio.Event().wait()

    ending = await run(handler)
    assert (ending.outcome, ending.error.type) == (Outcome.FAILED, "TimeoutError")


async def test_a_cancellation_that_the_handler_raised_itself_is_a_failure(run):
    async def handler(ctx):
        raise asyncio.CancelledError

    ending = await run(handler)
    assert (ending.outcome, ending.error.type) == (Outcome.FAILED, "CancelledError")


async def test_stop_iteration_in_a_thread_is_a_failure(run):
    def handler(ctx):
        raise StopIteration("over")

    ending = await asyncio.wait_for(run(handler), 5)
    assert ending.outcome is Outcome.FAILED
    assert "StopIteration" in ending.error.traceback


async def test_a_cancellation_from_outside_escapes(run):
    started = asyncio.Event()

    async def handler(ctx):
        started.set()
        await asyncio.Event().wait()

    running = asyncio.create_task(run(handler))
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_sync_handler_runs_in_a_thread_and_an_async_one_on_the_loop(run):
    def in_a_thread(ctx):
        return threading.current_thread().name

    async def on_the_loop(ctx):
        return threading.current_thread().name

    assert json.loads((await run(in_a_thread)).result).startswith("ThreadPoolExecutor")
    assert json.loads((await run(on_the_loop)).result) == threading.current_thread().name


async def test_sync_handlers_leave_the_loop_free(run):
    gate = threading.Event()

    def waits(ctx):
        return gate.wait(5)

    running = asyncio.create_task(run(waits))
    assert (await run(returning(1))).outcome is Outcome.SUCCEEDED
    gate.set()
    assert json.loads((await running).result) is True


async def test_a_handler_knows_who_it_is(run):
    seen = []

    async def handler(ctx: JobContext):
        seen.append(ctx)

    await run(handler, schedule="nightly", nominal_at=NOON.isoformat())
    (ctx,) = seen
    assert (ctx.job_id, ctx.task, ctx.queue, ctx.attempt, ctx.fence) == (JOB, "a.task", "default", 2, 7)
    assert (ctx.idempotency_key, ctx.schedule, ctx.nominal_at) == ("key", "nightly", NOON)


async def test_the_payload_arrives_as_the_annotations_say(run):
    seen = {}

    async def handler(ctx, *, customer: UUID, at: datetime, cents: int = 5):
        seen.update(customer=customer, at=at, cents=cents)

    await run(handler, {"customer": str(JOB), "at": "2026-01-31T12:00:00Z"})
    assert seen == {"customer": JOB, "at": NOON, "cents": 5}


async def test_a_payload_that_does_not_fit_the_handler_is_permanent(run):
    async def handler(ctx, *, cents: int):
        raise AssertionError("it must not run")

    ending = await run(handler, {"cents": "five"})
    assert (ending.outcome, ending.is_permanent, ending.error.type) == (Outcome.FAILED, True, "InvalidInput")
    assert ending.error.message.startswith("payload.cents")


async def test_bad_input_of_the_handler_s_own_is_no_fault_of_the_payload(run):
    assert not (await run(raising(InvalidInput("queue", "no")))).is_permanent


async def test_a_task_that_is_not_known_is_a_failure_that_names_it(run):
    ending = await run(returning(None), task="other.task")
    assert (ending.outcome, ending.is_permanent) == (Outcome.FAILED, False)
    assert "other.task" in ending.error.message


def test_a_stale_fence_means_that_the_worker_lost_the_job():
    assert ending_of(StaleFence("job 5 belongs to a later attempt")).outcome is Outcome.WORKER_LOST
