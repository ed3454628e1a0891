"""A runner's sign of life: its event loop says that it turns, and a thread beside it says what keeps it from turning.

A handler that doesn't give the loop back (a blocking call or a long computation in an ``async`` function) holds up
every other handler of its runner. The supervisor hears it from the silence, at the latest; the report that names the
job and the line of code comes from the thread, which runs as long as the blocking code lets go of the interpreter.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass

#: How often a busy loop says that it turns, in seconds.
BEAT_SECONDS = 0.25
#: How long a stack is at most, in characters, its innermost frames last: a report is one indivisible write (4,096 B).
_STACK = 1800


@dataclass(frozen=True, slots=True)
class Stall:
    """What a runner reports: the order whose handler blocks the loop (None: one of its own tasks), and where."""

    key: int | None
    stack: str


class Pulse:
    """Runner's side. ``running`` says which order an asyncio task belongs to."""

    def __init__(self, pipe: int, stall_after: float, running: Callable[[], dict[int, asyncio.Task[None]]]) -> None:
        self._pipe = pipe
        self._stall_after = stall_after
        self._running = running
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._is_on = False
        self._turned_at = 0.0
        threading.Thread(target=self._watch, name="pulse", daemon=True).start()

    def begin(self) -> None:
        """Something runs: beat from now on, as long as that is so."""
        if not self._is_on:
            self._is_on = True
            self._beat()

    def _beat(self) -> None:
        self._turned_at = time.monotonic()
        _write(self._pipe, b"\n")
        if self._running():
            self._loop.call_later(BEAT_SECONDS, self._beat)
        else:
            self._is_on = False

    def _watch(self) -> None:
        reported: tuple[float, object] | None = None
        while True:
            time.sleep(self._stall_after / 2)
            turned_at = self._turned_at
            if self._is_on and time.monotonic() - turned_at > self._stall_after:
                report = self._report()
                # Within one turn of the loop several can block it, one after another.
                if (turned_at, report["key"]) != reported:
                    reported = (turned_at, report["key"])
                    _write(self._pipe, json.dumps(report).encode() + b"\n")

    def _report(self) -> dict[str, object]:
        current = asyncio.current_task(self._loop)
        key = next((key for key, task in list(self._running().items()) if task is current), None)
        frame = sys._current_frames().get(self._loop_thread)
        stack = "".join(traceback.format_stack(frame)) if frame is not None else ""
        return {"key": key, "stack": stack.encode("ascii", "backslashreplace").decode()[-_STACK:]}


def read(pipe: int) -> tuple[bool, list[Stall]]:
    """Supervisor's side: whether anything came, and the reports that did."""
    try:
        said = os.read(pipe, 1 << 16)
    except BlockingIOError:
        return False, []
    reports = [json.loads(line) for line in said.splitlines() if line]
    return bool(said), [Stall(one["key"], one["stack"]) for one in reports]


def _write(pipe: int, words: bytes) -> None:
    try:
        os.write(pipe, words)
    except (BlockingIOError, BrokenPipeError):
        return  # the supervisor stands still or is gone; the watchdog deals with that
