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
from pathlib import Path
from typing import Any

from mainspring.boot_clock import boot_time
from mainspring.worker import pulse, start_tokens, watchdog
from mainspring.worker.attempt import Attempt
from mainspring.worker.frames import read_frame, write_frame
from mainspring.worker.pulse import Stall
from mainspring.worker.runner import DATABASE_VARIABLE

#: The cause of an end for which no job in the runner is to blame: Postgres, or the supervisor, stood still.
TRUST_OVER = "ended: the leases could not be extended in time"


@dataclass(frozen=True, slots=True)
class RunnerSpec:
    """How to start a runner."""

    modules: tuple[str, ...]
    slots: int
    database_url: str
    #: After how many seconds without a turn of its loop a runner counts as stalled.
    stall_after: float = 1.0
    #: After how many jobs, and from how much memory in MiB on, a runner is replaced by a new one; 0: never.
    recycle_jobs: int = 0
    recycle_mib: int = 0


@dataclass(slots=True)
class Pipes:
    """The supervisor's ends: the watchdog's words, the start tokens (both ends), the runner's signs of life."""

    watch: int
    starts: int
    untaken: int
    pulse: int

    def close(self) -> None:
        """Close all, once."""
        for end in (self.watch, self.starts, self.untaken, self.pulse):
            with contextlib.suppress(OSError):
                os.close(end)
        self.watch = self.starts = self.untaken = self.pulse = -1


class RunnerProcess:
    """One runner and the attempts in it."""

    def __init__(self, process: asyncio.subprocess.Process, writer: asyncio.StreamWriter, pipes: Pipes) -> None:
        self._process = process
        self._writer = writer
        self._pipes = pipes
        self.attempts: dict[int, Attempt] = {}
        self.catalogue: list[dict[str, Any]] = []
        self.is_ready = asyncio.Event()
        #: Kept here because the event loop alone would let it be collected.
        self.listener: asyncio.Task[None] | None = None
        #: Ends with the process, when all that was in it has been dealt with; its result is the cause.
        self.end: asyncio.Task[str]
        #: True for a runner that gets nothing more: it was started for one job alone, or is worn out.
        self.ends_when_idle = False
        #: Set when it has done enough: another one is to take its place.
        self.is_worn_out = asyncio.Event()
        #: Jobs that it was given.
        self.jobs = 0
        #: When its loop turned last, as far as is known; how long it may stand still.
        self._turned_at = boot_time()
        #: True from when its loop is found not to turn until it does again.
        self.is_stalled = False
        #: Whose handler blocks it, once that is known.
        self.blocker: Attempt | None = None
        self._permitted_until = 0.0

    @property
    def is_closed(self) -> bool:
        """True when it was told to end."""
        return self._writer.is_closing()

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def run(self, attempts: Iterable[Attempt]) -> None:
        """Start handlers; an idle runner gets its permission first, so that none runs without.

        The permission of one that is busy mostly ends earlier than the new leases; the next beat renews it.
        """
        batch = list(attempts)
        if not self.attempts:
            self._turned_at = boot_time()
        for attempt in batch:
            if self.attempts.get(attempt.placement) is not attempt:
                self.reserve(attempt)
        self.jobs += len(batch)
        if not self._permitted_until or min(one.trusted_until for one in batch) < self._permitted_until:
            self.permit()
        start_tokens.issue(self._pipes.starts, [attempt.placement for attempt in batch])
        write_frame(self._writer, {"run": [attempt.order() for attempt in batch]})

    def reserve(self, attempt: Attempt) -> None:
        """Count an attempt as this runner's before it can be run."""
        self.attempts[attempt.place()] = attempt

    def take_back(self) -> list[Attempt]:
        """The attempts that have not begun in it, and never will."""
        keys = start_tokens.take_back(self._pipes.untaken)
        return [attempt for key in sorted(keys) if (attempt := self.attempts.pop(key, None)) is not None]

    def listen(self) -> list[Stall]:
        """Hear its signs of life; returns what it says of a blocked loop."""
        has_turned, stalls = pulse.read(self._pipes.pulse)
        if has_turned and not stalls:
            self._turned_at = boot_time()
        return stalls

    def silent_for(self) -> float:
        """For how many seconds its loop hasn't turned, though it has work."""
        return boot_time() - self._turned_at if self.attempts else 0.0

    def excuse(self) -> None:
        """Begin to count its silence anew: it was the supervisor that didn't listen."""
        self._turned_at = boot_time()

    def resident_mib(self) -> float:
        """Its memory in MiB; 0 where the system doesn't say (elsewhere than on Linux), or when it has ended."""
        try:
            pages = int(Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1])
            return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
        except (OSError, IndexError):
            return 0.0

    def cancel(self, attempt: Attempt) -> None:
        """Ask the handler to stop."""
        write_frame(self._writer, {"cancel": [attempt.placement]})

    def permit(self) -> None:
        """Tell the runner's watchdog until when all its leases are surely held."""
        until = min((attempt.trusted_until for attempt in self.attempts.values()), default=0.0)
        if until != self._permitted_until and not self._writer.is_closing():
            self._permitted_until = until
            watchdog.grant(self._pipes.watch, until)

    def kill(self) -> None:
        """End the process at once, with whatever runs in it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Let the runner end by itself: its pipes close."""
        self._writer.close()
        self._pipes.close()

    async def wait(self) -> str:
        """Wait for the end of the process and say what it was."""
        code = await self._process.wait()
        if code == watchdog.EXIT_TRUST_OVER:
            return TRUST_OVER
        if code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"exited with code {code}"


async def start(spec: RunnerSpec, on_ended: Callable[[RunnerProcess, dict[str, Any]], None]) -> RunnerProcess:
    """Start a runner in a process group of its own; ``on_ended`` hears of each ending that it reports."""
    ours, theirs = socket.socketpair()
    (watch, watching), (starts, starting), (beat, beating) = os.pipe(), os.pipe(), os.pipe()
    for end in (watching, starts, starting, beat, beating):
        os.set_blocking(end, False)
    pipes = Pipes(watching, starting, starts, beat)
    with theirs:
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "mainspring.worker.runner"),
                *("--frames-fd", str(theirs.fileno()), "--watch-fd", str(watch)),
                *("--starts-fd", str(starts), "--pulse-fd", str(beating)),
                *("--slots", str(spec.slots), "--stall-after", str(spec.stall_after)),
                *spec.modules,
                pass_fds=(theirs.fileno(), watch, starts, beating),
                env=os.environ | {DATABASE_VARIABLE: spec.database_url},
                stdin=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            ours.close()
            pipes.close()
            raise
        finally:
            os.close(watch)
            os.close(beating)
    reader, writer = await asyncio.open_connection(sock=ours, limit=2**20)
    runner = RunnerProcess(process, writer, pipes)
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
