"""A runner's own permission to run: it ends the process when its supervisor is gone or silent.

The supervisor writes the instant until which all leases of this runner's jobs are surely held (seconds of
the boot-time clock, which goes on while a machine sleeps; 0 when the runner is idle). A thread of the
runner waits for the next word. At the instant itself, or when the pipe closes, it ends the process at once:
no handler of ours may run on under a lease that another worker could hold by now.
"""

from __future__ import annotations

import os
import select
import struct
import threading

from mainspring.boot_clock import boot_time

_WORD = struct.Struct("d")
EXIT_SUPERVISOR_GONE = 70
EXIT_TRUST_OVER = 71


def grant(pipe: int, until: float) -> None:
    """Supervisor's side: let the runner run until ``until`` (0: it is idle). A closed pipe is no error."""
    try:
        os.write(pipe, _WORD.pack(until))
    except BlockingIOError:
        return  # the runner's thread has not read 4,000 words: the last one it has still holds
    except BrokenPipeError:
        return  # the runner has ended, which its own watcher reports


def start(pipe: int) -> threading.Thread:
    """Runner's side: start the thread that obeys the words on ``pipe``."""
    thread = threading.Thread(target=_watch, args=(pipe,), name="watchdog", daemon=True)
    thread.start()
    return thread


def _watch(pipe: int) -> None:
    until = 0.0
    while True:
        wait = None if until == 0 else max(until - boot_time(), 0)
        readable, _, _ = select.select([pipe], [], [], wait)
        if not readable:
            os._exit(EXIT_TRUST_OVER)
        words = os.read(pipe, _WORD.size * 4096)
        if not words:
            os._exit(EXIT_SUPERVISOR_GONE)
        (until,) = _WORD.unpack_from(words, len(words) - _WORD.size)
