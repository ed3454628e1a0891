"""A job in place: the handler, the retries and the transaction, without a service or a broker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Any, cast
from uuid import UUID, uuid4

from mainspring.batches import Batch, BatchJob, BatchTask
from mainspring.context import Connection, JobContext, LastRun
from mainspring.domain.errors import InvalidInput
from mainspring.domain.job import JobRequest, json_text
from mainspring.domain.retry import DEFAULT
from mainspring.domain.settlement import AttemptError, Ending, Standing, decide
from mainspring.domain.states import Outcome, State
from mainspring.tasks import Task
from mainspring.worker.executor import ending_of

#: A handler that snoozes for ever is stopped here.
MOST_ATTEMPTS = 1000


@dataclass(frozen=True, slots=True)
class InlineAttempt:
    """One attempt: how it ended, and how long the next one would have waited."""

    attempt: int
    outcome: Outcome
    error: AttemptError | None = None
    delay: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True)
class InlineRun:
    """What became of the job. ``result`` is what the API would show, as JSON values."""

    state: State
    result: Any
    attempts: tuple[InlineAttempt, ...]

    @property
    def waited(self) -> timedelta:
        """How long the job would have waited between its attempts."""
        return sum((one.delay for one in self.attempts), timedelta(0))


class InlineContext(JobContext):
    """The context of an attempt in place; ``end`` ends its transaction."""

    def __init__(self, request: JobRequest, job_id: UUID, attempt: int, connection: Any) -> None:
        self.job_id = job_id
        self.task = request.task
        self.queue = request.queue or ""
        self.attempt = attempt
        self.fence = 2 * attempt + 1
        self.idempotency_key = request.idempotency_key or str(job_id)
        self.schedule = request.schedule
        self.nominal_at = request.nominal_at
        self.traceparent = request.traceparent
        self._connection = connection
        self._transaction: Any = None

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        if self._connection is None:
            raise RuntimeError("the handler uses ctx.transaction(): give run_inline a connection")
        if self._transaction is not None:
            raise RuntimeError("ctx.transaction() can be entered once in an attempt")
        self._transaction = self._connection.transaction()
        await self._transaction.start()
        yield self._connection

    async def last_run(self, *, succeeded: bool = False) -> LastRun | None:  # noqa: ARG002  the interface has it
        return None

    async def end(self, *, commit: bool) -> None:
        """Commit what the handler wrote, or roll it back; nothing when it wrote nothing."""
        transaction, self._transaction = self._transaction, None
        if transaction is not None:
            await (transaction.commit() if commit else transaction.rollback())


class InlineBatch(Batch[Any]):
    """A batch of one job in place."""

    def __init__(self, job: BatchJob[Any], context: InlineContext) -> None:
        super().__init__([job])
        self._context = context

    def transaction(self) -> AbstractAsyncContextManager[Connection]:
        return self._context.transaction()


@dataclass(slots=True)
class InlineJob:
    """A job that is run here, attempt after attempt, by the rules that a worker settles by."""

    task: Task[Any, Any]
    request: JobRequest
    id: UUID = field(default_factory=uuid4)
    state: State = State.SCHEDULED
    result: Any = None
    attempts: list[InlineAttempt] = field(default_factory=list)
    _used: int = 0
    _hand_backs: int = 0

    def __post_init__(self) -> None:
        if self.request.task != self.task.name:
            raise InvalidInput("task", f"the request is for {self.request.task}, not {self.task.name}")

    async def attempt(self, connection: Any = None) -> timedelta:
        """Run once; returns how long the job waits then, if it isn't over."""
        number = len(self.attempts) + 1
        ending = await _run(self.task, self.request, InlineContext(self.request, self.id, number, connection))
        if ending.outcome is Outcome.SUCCEEDED:
            self.state, self.result = State.SUCCEEDED, json.loads(ending.result or "null")
            self.attempts.append(InlineAttempt(number, ending.outcome))
            return timedelta(0)
        standing = Standing(self._used + 1, self.request.retry or DEFAULT, self._hand_backs)
        # Without chance: half of the jitter.
        verdict = decide(ending, standing, 0.5)
        self._used, self._hand_backs = (self._used + 1, 0) if verdict.counts else (self._used, self._hand_backs + 1)
        self.state = verdict.state
        self.attempts.append(InlineAttempt(number, verdict.outcome, ending.error, verdict.delay))
        return verdict.delay

    @property
    def is_over(self) -> bool:
        """True when no attempt follows."""
        return self.state.is_final or len(self.attempts) >= MOST_ATTEMPTS


async def run_inline(one: Task[Any, Any], request: JobRequest, *, connection: Any = None) -> InlineRun:
    """Run a job to its end, attempt after attempt, as a worker would by the task's own retry policy.

    ``connection``: an asyncpg connection for ``ctx.transaction()``; each attempt commits or rolls back on it.
    Raises InvalidInput when the request is another task's.
    """
    job = InlineJob(one, request)
    while not job.is_over:
        await job.attempt(connection)
    return InlineRun(job.state, job.result, tuple(job.attempts))


async def _run(one: Task[Any, Any], request: JobRequest, context: InlineContext) -> Ending:
    deadline = asyncio.timeout(request.timeout.total_seconds() if request.timeout else None)
    try:
        async with deadline:
            value = await _call(one, context, request.payload)
        result = json_text(one.returns.dump_python(value, mode="json", warnings=False), "result")
        await context.end(commit=True)
    except Exception as error:  # noqa: BLE001  whatever a handler raises becomes an outcome, as in a worker
        await context.end(commit=False)
        ending = ending_of(error)
        return replace(ending, outcome=Outcome.TIMED_OUT) if deadline.expired() else ending
    return Ending(Outcome.SUCCEEDED, result=result)


async def _call(one: Task[Any, Any], context: InlineContext, payload: str) -> Any:
    if isinstance(one, BatchTask):
        return await _call_with_one(one, context, payload)
    call = partial(one.handler, context, **one.arguments_from(payload))
    return await call() if one.is_async else await asyncio.to_thread(call)


async def _call_with_one(one: BatchTask[Any], context: InlineContext, payload: str) -> Any:
    """A batch of one job; returns its result, raises what it failed with."""
    job = BatchJob(context.job_id, one.payload_from(payload), context.attempt, context.fence, context.idempotency_key)
    call = partial(cast("Callable[[Any], Any]", one.handler), InlineBatch(job, context))
    await (call() if one.is_async else asyncio.to_thread(call))
    if job.error is not None:
        raise job.error
    return job.result
