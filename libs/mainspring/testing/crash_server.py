"""A process that runs a handler in children of its own, and has each child killed at one of its awaits.

Started by ``crash_kit``; it imports the task's module once and forks before it does anything else, so that each run
begins in the same state and costs milliseconds. Orders and answers are JSON lines on its standard input and output.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import linecache
import os
import signal
import sys
from collections.abc import Generator
from types import CoroutineType
from typing import Any, cast
from uuid import UUID

from mainspring.domain.job import JobRequest
from mainspring.store.pool import connect
from mainspring.tasks import Task
from mainspring.testing.inline import InlineContext


class _Stepped:
    """Awaits a coroutine, and counts how often it has waited; the process dies as the ``kill_at``-th wait ends."""

    def __init__(self, work: CoroutineType[Any, Any, Any], kill_at: int, report: int) -> None:
        self._work = work
        self._kill_at = kill_at
        self._report = report
        self.count = 0

    def __await__(self) -> Generator[Any, Any, Any]:
        waits = self._work.__await__()
        try:
            waited_for = next(waits)
            while True:
                error: BaseException | None = None
                answer = None
                try:
                    answer = yield waited_for
                except BaseException as raised:  # noqa: BLE001  handed on below
                    error = raised
                # What it waited for has happened; the handler doesn't know it yet.
                self.count += 1
                if self.count == self._kill_at:
                    self.die(_place_of(self._work))
                waited_for = waits.throw(error) if error else waits.send(answer)
        except StopIteration as end:
            return end.value

    def die(self, place: str) -> None:
        """Say where, and end as a machine's memory killer would: no clean-up, no goodbye."""
        os.write(self._report, json.dumps({"place": place}).encode())
        os.kill(os.getpid(), signal.SIGKILL)


def _place_of(work: CoroutineType[Any, Any, Any]) -> str:
    frame = work.cr_frame
    assert frame is not None  # noqa: S101  it waits
    text = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
    return f"line {frame.f_lineno}: {text}"


async def _attempt(one: Task[Any, Any], order: dict[str, Any], report: int) -> dict[str, Any]:
    """One attempt on a connection of its own; with a ``kill_at`` beyond its last await it dies when it has returned."""
    request = JobRequest(one.name, order["payload"], idempotency_key=order["key"])
    connection = None
    if url := order["database_url"]:
        os.environ["MAINSPRING_DATABASE_URL"] = url
        connection = await connect(url, "crash-kit")
    context = InlineContext(request, UUID(order["job_id"]), order["attempt"], connection)
    handling = cast("CoroutineType[Any, Any, Any]", one.handler(context, **one.arguments_from(order["payload"])))
    stepped = _Stepped(handling, order["kill_at"], report)
    try:
        await stepped
    except Exception as error:  # noqa: BLE001  whatever a handler raises is the run's outcome
        await context.end(commit=False)
        return {"error": f"{type(error).__name__}: {error}", "awaits": stepped.count}
    if order["kill_at"] > stepped.count:
        stepped.die("after it has returned, before its completion is written")
    await context.end(commit=True)
    return {"error": None, "awaits": stepped.count}


def _serve_one(one: Task[Any, Any], line: str) -> str:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = asyncio.run(_attempt(one, json.loads(line), writing))
        except BaseException as error:  # noqa: BLE001  never back into the server's own loop
            said = {"error": f"{type(error).__name__}: {error}", "awaits": 0}
        os.write(writing, json.dumps(said).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answers:
        answer = answers.read()
    os.waitpid(child, 0)
    return answer or json.dumps({"error": "its process ended by itself", "awaits": 0})


def main() -> None:
    """Serve orders until the standard input ends."""
    module, name = sys.argv[1:3]
    found = [
        one for one in vars(importlib.import_module(module)).values() if isinstance(one, Task) and one.name == name
    ]
    # What the handler prints is its own: answers go where standard output went, and prints to standard error.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        answers.write(_serve_one(found[0], line) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
