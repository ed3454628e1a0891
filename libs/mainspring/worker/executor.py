"""Running one job's handler: a short pipeline from an order to an Ending.

This is one of the two places in Mainspring that catch every exception: whatever a handler does, its job ends
in a recorded outcome.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

from mainspring.domain.errors import InvalidInput, Permanent, RetryAfter, Snooze, StaleFence
from mainspring.domain.job import json_text
from mainspring.domain.settlement import Ending
from mainspring.domain.states import Outcome
from mainspring.store.pool import Database
from mainspring.tasks import Task, TaskRegistry
from mainspring.telemetry import tracing
from mainspring.worker.faults import attempt_error
from mainspring.worker.handler_context import EffectExists, HandlerContext

T = TypeVar("T")


class Committed(Ending):
    """The handler's transaction has settled the job already: only the message is left to acknowledge."""


async def execute(order: dict[str, Any], tasks: TaskRegistry, database: Database, threads: Executor) -> Ending:
    """Run the handler that ``order`` names and say how it ended. Only a cancellation from outside escapes.

    Deadlines are the supervisor's: it cancels here, and ends the process of what doesn't obey.
    """
    try:
        return await _run_to_the_end(HandlerContext(order, database), order, tasks, threads)
    except asyncio.CancelledError as error:
        if _is_asked_to_stop():
            raise
        return Ending(Outcome.FAILED, error=attempt_error(error))
    except BaseException as error:  # noqa: BLE001  the executor: whatever a handler raises becomes an outcome
        return ending_of(error)


async def _run_to_the_end(
    context: HandlerContext, order: dict[str, Any], tasks: TaskRegistry, threads: Executor
) -> Ending:
    try:
        with tracing.continued(context.traceparent):
            result = await _handle(order, tasks, context, threads)
        return await _settle(context, result)
    finally:
        await context.rollback()


async def _handle(order: dict[str, Any], tasks: TaskRegistry, context: HandlerContext, threads: Executor) -> str | None:
    one = _known(tasks, order["task"])
    call = partial(one.handler, context, **one.arguments_from(order["payload"]))
    return result_text(one, await call_handler(one, call, threads))


def _known(tasks: TaskRegistry, name: str) -> Task[Any, Any]:
    one = tasks.get(name)
    if one is None:
        raise LookupError(f"this worker has no task {name}")
    return one


def _is_asked_to_stop() -> bool:
    """True when the cancellation came from outside, and isn't one that the handler raised by itself."""
    current = asyncio.current_task()
    return current is not None and current.cancelling() > 0


async def call_handler(one: Task[Any, Any], call: Callable[[], Any], threads: Executor) -> Any:
    """Call a task's handler, on the loop or in a thread; returns what it returns, raises what it raises."""
    if one.is_async:
        return await call()
    value, error = await to_the_end(
        asyncio.get_running_loop().run_in_executor(threads, copy_context().run, _caught, call)
    )
    if error is not None:
        raise error
    return value


def _caught(call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """A thread's outcome as a value: an exception such as StopIteration can't travel through a future."""
    try:
        return call(), None
    except BaseException as error:  # noqa: BLE001  raised again on the loop
        return None, error


def result_text(one: Task[Any, Any], value: Any) -> str | None:
    """A result as JSON text. Raises InvalidInput for what JSON can't hold."""
    return None if value is None else json_text(one.returns.dump_python(value, mode="json", warnings=False), "result")


async def _settle(context: HandlerContext, result: str | None) -> Ending:
    if not context.has_transaction:
        return Ending(Outcome.SUCCEEDED, result=result)
    try:
        await to_the_end(context.commit(result))
    except EffectExists:
        # Rolled back; the supervisor settles it as the duplicate that it is.
        return Ending(Outcome.SUCCEEDED)
    return Committed(Outcome.SUCCEEDED, result=result)


async def to_the_end(work: Coroutine[Any, Any, T] | asyncio.Future[T]) -> T:
    """Wait for what can't be interrupted: a commit (the database bounds it) or a thread (its process's end does)."""
    running = asyncio.ensure_future(work)
    while not running.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([running])
    return running.result()


def ending_of(error: BaseException) -> Ending:
    """The ending that an exception of a handler means."""
    match error:
        case Snooze():
            return Ending(Outcome.SNOOZED, delay=error.delay)
        case RetryAfter():
            return Ending(Outcome.FAILED, error=attempt_error(error), delay=error.delay)
        case Permanent():
            return Ending(Outcome.FAILED, error=attempt_error(error), is_permanent=True)
        case InvalidInput() if error.field.split(".")[0] == "payload":
            # The payload will not change: trying again can't help.
            return Ending(Outcome.FAILED, error=attempt_error(error), is_permanent=True)
        case StaleFence():
            return Ending(Outcome.WORKER_LOST, error=attempt_error(error))
    return Ending(Outcome.FAILED, error=attempt_error(error))
