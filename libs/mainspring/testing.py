"""For the tests of your own tasks: run a job in place with its retries, and note what was submitted.

    run = await run_inline(charge, charge.request(customer=…, cents=990), connection=connection)
    assert run.state == "succeeded"

Nothing waits: a retry's delay is noted and the next attempt begins at once. No service, broker or schema is needed;
a handler that uses ``ctx.transaction()`` needs a connection to a database that holds its own tables.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from mainspring.context import Connection, JobContext
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


class _InlineContext(JobContext):
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

    async def end(self, *, commit: bool) -> None:
        """Commit what the handler wrote, or roll it back; nothing when it wrote nothing."""
        transaction, self._transaction = self._transaction, None
        if transaction is not None:
            await (transaction.commit() if commit else transaction.rollback())


async def run_inline(one: Task[Any, Any], request: JobRequest, *, connection: Any = None) -> InlineRun:
    """Run a job to its end, attempt after attempt, as a worker would by the task's own retry policy.

    ``connection``: an asyncpg connection for ``ctx.transaction()``; each attempt commits or rolls back on it.
    Raises InvalidInput when the request is another task's.
    """
    if request.task != one.name:
        raise InvalidInput("task", f"the request is for {request.task}, not {one.name}")
    job_id, attempts, used, hand_backs = uuid4(), list[InlineAttempt](), 0, 0
    policy = request.retry or DEFAULT
    while True:
        number = len(attempts) + 1
        ending = await _attempt(one, request, _InlineContext(request, job_id, number, connection))
        if ending.outcome is Outcome.SUCCEEDED:
            attempts.append(InlineAttempt(number, ending.outcome))
            return InlineRun(State.SUCCEEDED, json.loads(ending.result or "null"), tuple(attempts))
        # Without chance: half of the jitter.
        verdict = decide(ending, Standing(used + 1, policy, hand_backs), 0.5)
        used, hand_backs = (used + 1, 0) if verdict.counts else (used, hand_backs + 1)
        attempts.append(InlineAttempt(number, verdict.outcome, ending.error, verdict.delay))
        if verdict.state.is_final or number >= MOST_ATTEMPTS:
            return InlineRun(verdict.state, None, tuple(attempts))


async def _attempt(one: Task[Any, Any], request: JobRequest, context: _InlineContext) -> Ending:
    deadline = asyncio.timeout(request.timeout.total_seconds() if request.timeout else None)
    try:
        async with deadline:
            value = await _call(one, context, one.arguments_from(request.payload))
        result = json_text(one.returns.dump_python(value, mode="json", warnings=False), "result")
        await context.end(commit=True)
    except Exception as error:  # noqa: BLE001  whatever a handler raises becomes an outcome, as in a worker
        await context.end(commit=False)
        ending = ending_of(error)
        return replace(ending, outcome=Outcome.TIMED_OUT) if deadline.expired() else ending
    return Ending(Outcome.SUCCEEDED, result=result)


async def _call(one: Task[Any, Any], context: JobContext, arguments: dict[str, Any]) -> Any:
    if one.is_async:
        return await one.handler(context, **arguments)
    return await asyncio.to_thread(one.handler, context, **arguments)


@dataclass(slots=True)
class Recorder:
    """Stands where a ``Client`` stands in your code, and keeps what it is asked to submit."""

    requests: list[JobRequest] = field(default_factory=list)

    async def submit(
        self,
        request: JobRequest,
        *,
        queue: str | None = None,
        priority: int | None = None,
        run_at: datetime | None = None,
        delay: timedelta | None = None,
        idempotency_key: str | None = None,
        connection: Any = None,  # noqa: ARG002  accepted as a client does; its transaction takes nothing back here
    ) -> UUID:
        """As ``Client.submit``: the request is checked and kept."""
        options = {"queue": queue, "priority": priority, "run_at": run_at, "delay": delay}
        self.requests.append(request.with_options(idempotency_key=idempotency_key, **options))
        return uuid4()

    async def submit_many(self, requests: Sequence[JobRequest], *, connection: Any = None) -> list[UUID]:
        """As ``Client.submit_many``."""
        return [await self.submit(one, connection=connection) for one in requests]

    def payloads(self, one: Task[Any, Any]) -> list[dict[str, Any]]:
        """The payloads that were submitted for a task, in order."""
        return [json.loads(request.payload) for request in self.requests if request.task == one.name]
