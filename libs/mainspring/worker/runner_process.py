"""The supervisor's handle on one runner process: start, send, hear, permit, kill."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from mainspring.worker import watchdog
from mainspring.worker.attempt import Attempt
from mainspring.worker.frames import read_frame, write_frame
from mainspring.worker.runner import DATABASE_VARIABLE


@dataclass(frozen=True, slots=True)
class RunnerSpec:
    """How to start a runner."""

    modules: tuple[str, ...]
    slots: int
    database_url: str


class RunnerProcess:
    """One runner and the attempts in it."""

    def __init__(self, process: asyncio.subprocess.Process, writer: asyncio.StreamWriter, watch: int) -> None:
        self._process = process
        self._writer = writer
        self._watch = watch
        self.attempts: dict[int, Attempt] = {}
        self.catalogue: list[dict[str, Any]] = []
        self.is_ready = asyncio.Event()
        #: Kept here because the event loop alone would let it be collected.
        self.listener: asyncio.Task[None] | None = None
        #: True for a runner that was started for one job alone.
        self.is_private = False
        self._permitted_until = 0.0

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def run(self, attempts: Iterable[Attempt]) -> None:
        """Start handlers; an idle runner gets its permission first, so that none runs without.

        One that is busy has a permission that ends earlier than the new leases; the next beat renews it.
        """
        batch = list(attempts)
        self.attempts.update((attempt.key, attempt) for attempt in batch)
        if not self._permitted_until:
            self.permit()
        write_frame(self._writer, {"run": [attempt.order() for attempt in batch]})

    def cancel(self, attempt: Attempt) -> None:
        """Ask the handler to stop."""
        write_frame(self._writer, {"cancel": [attempt.key]})

    def permit(self) -> None:
        """Tell the runner's watchdog until when all its leases are surely held."""
        until = min((attempt.trusted_until for attempt in self.attempts.values()), default=0.0)
        if until != self._permitted_until:
            self._permitted_until = until
            watchdog.grant(self._watch, until)

    def kill(self) -> None:
        """End the process at once, with whatever runs in it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Let the runner end by itself: its pipes close."""
        self._writer.close()
        with contextlib.suppress(OSError):
            os.close(self._watch)
        self._watch = -1

    async def wait(self) -> str:
        """Wait for the end of the process and say what it was."""
        code = await self._process.wait()
        if code == watchdog.EXIT_TRUST_OVER:
            return "the lease could not be extended in time"
        if code < 0:
            return f"killed by {signal.Signals(-code).name}"
        return f"exited with code {code}"


async def start(spec: RunnerSpec, on_ended: Callable[[RunnerProcess, dict[str, Any]], None]) -> RunnerProcess:
    """Start a runner in a process group of its own; ``on_ended`` hears of each ending that it reports."""
    ours, theirs = socket.socketpair()
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    with theirs:
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "mainspring.worker.runner"),
                *("--frames-fd", str(theirs.fileno()), "--watch-fd", str(read_end)),
                *("--slots", str(spec.slots)),
                *spec.modules,
                pass_fds=(theirs.fileno(), read_end),
                env=os.environ | {DATABASE_VARIABLE: spec.database_url},
                stdin=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
        finally:
            os.close(read_end)
    reader, writer = await asyncio.open_connection(sock=ours, limit=2**20)
    runner = RunnerProcess(process, writer, write_end)
    runner.listener = asyncio.create_task(_listen(runner, reader, on_ended), name=f"runner {process.pid}")
    return runner


async def _listen(
    runner: RunnerProcess,
    reader: asyncio.StreamReader,
    on_ended: Callable[[RunnerProcess, dict[str, Any]], None],
) -> None:
    while (frame := await read_frame(reader)) is not None:
        if "ready" in frame:
            runner.catalogue = frame["ready"]
            runner.is_ready.set()
        for ended in frame.get("ended", ()):
            on_ended(runner, ended)
