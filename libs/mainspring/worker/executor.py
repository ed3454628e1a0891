"""Running one job's handler: a short pipeline from an order to an Ending.

This is one of the two places in Mainspring that catch every exception: whatever a handler does, its job ends
in a recorded outcome.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from functools import partial
from typing import Any

from mainspring.domain.errors import InvalidInput, Permanent, RetryAfter, Snooze, StaleFence
from mainspring.domain.job import json_text
from mainspring.domain.settlement import AttemptError, Ending
from mainspring.domain.states import Outcome
from mainspring.store.pool import Database
from mainspring.tasks import Task, TaskRegistry
from mainspring.worker.faults import attempt_error
from mainspring.worker.handler_context import EffectExists, HandlerContext


class Committed(Ending):
    """The handler's transaction has settled the job already: only the message is left to acknowledge."""


async def execute(order: dict[str, Any], tasks: TaskRegistry, database: Database, threads: Executor) -> Ending:
    """Run the handler that ``order`` names and say how it ended. Only a cancellation from outside escapes."""
    context = HandlerContext(order, database)
    timeout = asyncio.timeout(order["timeout"])
    try:
        async with timeout:
            result = await _handle(order, tasks, context, threads)
        return await _settle(context, result)
    except asyncio.CancelledError:
        raise
    except TimeoutError as error:
        return _timed_out(order, error) if timeout.expired() else Ending(Outcome.FAILED, error=attempt_error(error))
    except BaseException as error:  # noqa: BLE001  the executor: whatever a handler raises becomes an outcome
        return ending_of(error)
    finally:
        await context.rollback()


async def _handle(order: dict[str, Any], tasks: TaskRegistry, context: HandlerContext, threads: Executor) -> str | None:
    one = _known(tasks, order["task"])
    call = partial(one.handler, context, **one.arguments_from(order["payload"]))
    return _result_text(one, await _run(one, call, threads))


def _known(tasks: TaskRegistry, name: str) -> Task[Any, Any]:
    one = tasks.get(name)
    if one is None:
        raise LookupError(f"this worker has no task {name}")
    return one


async def _run(one: Task[Any, Any], call: Callable[[], Any], threads: Executor) -> Any:
    if one.is_async:
        return await call()
    return await asyncio.get_running_loop().run_in_executor(threads, call)


def _result_text(one: Task[Any, Any], value: Any) -> str | None:
    return None if value is None else json_text(one.returns.dump_python(value, mode="json", warnings=False), "result")


async def _settle(context: HandlerContext, result: str | None) -> Ending:
    if not context.has_transaction:
        return Ending(Outcome.SUCCEEDED, result=result)
    try:
        await _to_the_end(context.commit(result))
    except EffectExists:
        # Rolled back; the supervisor settles it as the duplicate that it is.
        return Ending(Outcome.SUCCEEDED)
    return Committed(Outcome.SUCCEEDED, result=result)


async def _to_the_end(commit: Coroutine[Any, Any, None]) -> None:
    """Neither a timeout nor a cancellation may cut a commit in two; the database's own timeouts bound it."""
    committing = asyncio.ensure_future(commit)
    while not committing.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([committing])
    committing.result()


def _timed_out(order: dict[str, Any], error: BaseException) -> Ending:
    text = f"not done after {order['timeout']:g} s"
    return Ending(Outcome.TIMED_OUT, error=AttemptError("Timeout", text, attempt_error(error).traceback))


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
