"""The runner process: it loads users' modules, runs the orders of its supervisor, and reports each ending.

Started by the supervisor as ``python -m mainspring.worker.runner``. A socket comes with it for frames, and three pipes:
the watchdog's words, the tokens with which handlers begin, and the signs of life that go back.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import uvloop

from mainspring.batches import BatchTask
from mainspring.domain.errors import MainspringError
from mainspring.domain.settlement import AttemptError, Ending
from mainspring.domain.states import Outcome
from mainspring.runtime.collector import spare_collector
from mainspring.store.pool import Database
from mainspring.tasks import TaskRegistry
from mainspring.telemetry import logs, tracing
from mainspring.worker import watchdog
from mainspring.worker.batch_executor import execute_batch
from mainspring.worker.executor import Committed, execute
from mainspring.worker.faults import attempt_error
from mainspring.worker.frames import read_frame, write_frame
from mainspring.worker.loader import catalogue_entry, load
from mainspring.worker.pulse import Pulse
from mainspring.worker.start_tokens import StartGate

log = logs.get_logger(__name__)
#: Where the supervisor puts the database's URL: an argument could be read by every user of the machine.
DATABASE_VARIABLE = "MAINSPRING_DATABASE_URL"


@dataclass(slots=True)
class Gathering:
    """The orders of one call of a batch task's handler, and of these the keys that were asked to stop."""

    orders: list[dict[str, Any]] = field(default_factory=list)
    cancelled: set[int] = field(default_factory=set)
    is_full: asyncio.Event = field(default_factory=asyncio.Event)
    run: asyncio.Task[None] = field(init=False)


class Runner:
    """Runs orders side by side and sends their endings, all of one turn of the loop in one frame."""

    def __init__(
        self, tasks: TaskRegistry, database: Database, arguments: argparse.Namespace, writer: asyncio.StreamWriter
    ) -> None:
        self._tasks = tasks
        self._database = database
        self._threads = ThreadPoolExecutor(max_workers=arguments.slots, thread_name_prefix="handler")
        self._writer = writer
        self._running: dict[int, asyncio.Task[None]] = {}
        #: Of those, what has not taken its first step; and what was cancelled before it.
        self._unbegun: set[int] = set()
        self._cancelled: set[int] = set()
        #: The batches that may still grow, by task; and the batch of each order that is in one.
        self._gathering: dict[str, Gathering] = {}
        self._batches: dict[int, Gathering] = {}
        self._gate = StartGate(arguments.starts_fd)
        self._pulse = Pulse(arguments.pulse_fd, arguments.stall_after, lambda: self._running)
        self._ended: list[dict[str, Any]] = []

    async def serve(self, reader: asyncio.StreamReader) -> None:
        """Obey frames until the supervisor closes the pipe."""
        write_frame(self._writer, {"ready": [catalogue_entry(one) for one in self._tasks]})
        while (frame := await read_frame(reader)) is not None:
            for order in frame.get("run", ()):
                self._start(order)
            for key in frame.get("cancel", ()):
                self._cancel(key)

    def _cancel(self, key: int) -> None:
        batch = self._batches.get(key)
        if batch is not None:
            batch.cancelled.add(key)
            batch.is_full.set()
        if key in self._unbegun:
            # A task that is cancelled before its first step would never say so.
            self._cancelled.add(key)
        elif key in self._running:
            self._running[key].cancel()

    def _start(self, order: dict[str, Any]) -> None:
        self._unbegun.add(order["key"])
        one = self._tasks.get(order["task"])
        run = self._gather(one, order) if isinstance(one, BatchTask) else asyncio.create_task(self._run(order))
        self._running[order["key"]] = run
        self._pulse.begin()

    def _gather(self, one: BatchTask[Any], order: dict[str, Any]) -> asyncio.Task[None]:
        """Put an order into the batch that may still grow, or begin one."""
        batch = self._gathering.get(one.name)
        if batch is None:
            batch = self._gathering[one.name] = Gathering()
            batch.run = asyncio.create_task(self._run_batch(one, batch))
        batch.orders.append(order)
        self._batches[order["key"]] = batch
        if len(batch.orders) == one.most:
            del self._gathering[one.name]
            batch.is_full.set()
        return batch.run

    async def _run(self, order: dict[str, Any]) -> None:
        if self._begins(order["key"]):
            self._end(order["key"], await self._execute(order))

    def _begins(self, key: int) -> bool:
        """Whether an order begins here, now; one that was cancelled before has ended."""
        self._unbegun.discard(key)
        was_cancelled = key in self._cancelled
        self._cancelled.discard(key)
        if not self._gate.may_begin(key):
            # It runs elsewhere: the loop was blocked for too long.
            del self._running[key]
            self._batches.pop(key, None)
            return False
        if was_cancelled:
            self._end(key, Ending(Outcome.CANCELLED))
        return not was_cancelled

    def _end(self, key: int, ending: Ending) -> None:
        del self._running[key]
        self._batches.pop(key, None)
        self._report({"key": key, **_as_json(ending)})

    async def _run_batch(self, one: BatchTask[Any], batch: Gathering) -> None:
        if one.wait:
            with suppress(TimeoutError):
                async with asyncio.timeout(one.wait):
                    await batch.is_full.wait()
        if self._gathering.get(one.name) is batch:
            del self._gathering[one.name]
        orders = [order for order in batch.orders if self._begins(order["key"])]
        batch.cancelled.intersection_update(order["key"] for order in orders)
        if orders:
            endings = await execute_batch(one, orders, batch.cancelled, self._database, self._threads)
            for key, ending in endings.items():
                self._end(key, ending)

    async def _execute(self, order: dict[str, Any]) -> Ending:
        try:
            return await execute(order, self._tasks, self._database, self._threads)
        except asyncio.CancelledError as error:
            return Ending(Outcome.CANCELLED, error=attempt_error(error))

    def _report(self, ended: dict[str, Any]) -> None:
        if not self._ended:
            asyncio.get_running_loop().call_soon(self._flush)
        self._ended.append(ended)

    def _flush(self) -> None:
        ended, self._ended = self._ended, []
        write_frame(self._writer, {"ended": ended})


def _as_json(ending: Ending) -> dict[str, Any]:
    return {
        "outcome": ending.outcome.value,
        "result": ending.result,
        "error": ending.error.as_json() if ending.error else None,
        "permanent": ending.is_permanent,
        "delay": ending.delay.total_seconds() if ending.delay is not None else None,
        "committed": isinstance(ending, Committed),
    }


def ending_from(frame: dict[str, Any]) -> tuple[Ending, bool]:
    """Supervisor's side: an ending as a runner reported it, and whether it is committed already."""
    error = AttemptError(**frame["error"]) if frame["error"] else None
    delay = timedelta(seconds=frame["delay"]) if frame["delay"] is not None else None
    ending = Ending(Outcome(frame["outcome"]), frame["result"], error, frame["permanent"], delay)
    return ending, frame["committed"]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="mainspring-runner")
    parser.add_argument("--frames-fd", type=int, required=True)
    parser.add_argument("--watch-fd", type=int, required=True)
    parser.add_argument("--starts-fd", type=int, required=True)
    parser.add_argument("--pulse-fd", type=int, required=True)
    parser.add_argument("--slots", type=int, required=True)
    parser.add_argument("--stall-after", type=float, required=True)
    parser.add_argument("modules", nargs="+")
    return parser.parse_args()


async def _main(arguments: argparse.Namespace, tasks: TaskRegistry) -> None:
    reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=arguments.frames_fd))
    async with Database(
        os.environ[DATABASE_VARIABLE], "runner", most=min(arguments.slots, 10), runs_handlers=True
    ) as database:
        await Runner(tasks, database, arguments, writer).serve(reader)


def main() -> int:
    """Run until the supervisor closes the pipe."""
    arguments = _arguments()
    watchdog.start(arguments.watch_fd)
    logs.configure("runner")
    # The supervisor decides how a stop goes; a signal to the whole group must not cut handlers short.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        tasks = load(arguments.modules)
    except MainspringError as error:
        log.error("the runner can't start", error=str(error))
        return 2
    spare_collector()
    tracing.configure("runner")
    uvloop.run(_main(arguments, tasks))
    tracing.finish()
    return 0


if __name__ == "__main__":
    sys.exit(main())
