"""Starts services by fork: what they import is there already, which is most of what a start costs.

A service started so is a process of its own like any other, with its own session, environment and log. The server ends
with the process that started it, and its children with it. ``ForkServer.start`` leaves to an interpreter of its own
whatever must read its environment while it is imported.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from mainspring.fault_points import VARIABLE as FAULT_POINTS

PREFIX = "mainspring_services."
SERVICES = ("api", "dispatcher", "dlq_handler", "scheduler", "worker")
PR_SET_PDEATHSIG = 1


class ForkedService:
    """What ``subprocess.Popen`` is to other processes, as far as it is needed."""

    def __init__(self, connection: socket.socket) -> None:
        self._answers = connection.makefile("r")
        self._connection = connection
        self.pid = int(self._answers.readline())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, or None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; returns the exit code, negative for a signal. Raises TimeoutExpired."""
        if self.returncode is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._connection, selectors.EVENT_READ)
                if not selector.select(timeout):
                    raise subprocess.TimeoutExpired(PREFIX, cast(float, timeout))
            # Without a word the server has ended, and this with it.
            self.returncode = int(self._answers.readline() or -signal.SIGKILL)
            self._answers.close()
            self._connection.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal to the process, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)


class ForkServer:
    """The server's process, as its owner has it."""

    def __init__(self, folder: Path) -> None:
        self._address = str(folder / "fork-server")
        self._environment = dict(os.environ)
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, self._address], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def start(self, argv: Sequence[str], *, env: Mapping[str, str], stdout: Any, **options: Any) -> Any:
        """As ``subprocess.Popen``; by fork where that makes no difference."""
        service = argv[2].removeprefix(PREFIX)
        if service not in SERVICES or not self._is_forkable(env):
            return subprocess.Popen(argv, env=env, stdout=stdout, **options)
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self._address)
        request = {"service": service, "arguments": argv[3:], "environment": dict(env)}
        socket.send_fds(connection, [json.dumps(request).encode() + b"\n"], [stdout.fileno()])
        return ForkedService(connection)

    def close(self) -> None:
        """End the server, and what it has started."""
        self._process.communicate(timeout=10)

    def _is_forkable(self, env: Mapping[str, str]) -> bool:
        added = set(_paths(env)) - set(_paths(self._environment))
        is_ours = not any((Path(path) / "mainspring").exists() for path in added)
        return is_ours and _read_at_import(env) == _read_at_import(self._environment)


def _read_at_import(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that modules may read while they are imported."""
    later = ("MAINSPRING_", "PYTEST_")
    return {
        name: value
        for name, value in environment.items()
        if name == FAULT_POINTS or not (name.startswith(later) or name == "PYTHONPATH")
    }


def _paths(env: Mapping[str, str]) -> list[str]:
    return [path for path in env.get("PYTHONPATH", "").split(os.pathsep) if path]


def serve(address: str) -> None:
    """Fork what is asked for until standard input ends."""
    gc.disable()  # as each service does while it is imported
    mains = {service: import_module(f"{PREFIX}{service}.main").main for service in SERVICES}
    with socket.socket(socket.AF_UNIX) as listener, selectors.DefaultSelector() as selector:
        listener.bind(address)
        listener.listen()
        selector.register(listener, selectors.EVENT_READ)
        selector.register(sys.stdin, selectors.EVENT_READ)
        print("ready", flush=True)
        while True:
            for key, _ in selector.select():
                if key.fileobj is sys.stdin:
                    return
                if key.fileobj is listener:
                    connection, _ = listener.accept()
                    pid = _fork(connection, mains)
                    selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, connection))
                else:
                    selector.unregister(key.fileobj)
                    _tell_end(cast(int, key.fileobj), *key.data)


def _tell_end(pidfd: int, pid: int, connection: socket.socket) -> None:
    os.close(pidfd)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with contextlib.suppress(BrokenPipeError), connection:
        connection.sendall(f"{code}\n".encode())


def _fork(connection: socket.socket, mains: Mapping[str, Callable[[], int]]) -> int:
    text, (log, *_), *_ = socket.recv_fds(connection, 1 << 20, 1)
    while not text.endswith(b"\n"):
        text += connection.recv(1 << 20)
    request = json.loads(text)
    server = os.getpid()
    pid = os.fork()
    if pid:
        os.close(log)
        connection.sendall(f"{pid}\n".encode())
        return pid
    code = 1
    try:
        _become(request, log, server)
        code = mains[request["service"]]()
    except BaseException:  # noqa: BLE001  what an interpreter does at its end
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _become(request: Mapping[str, Any], log: int, server: int) -> None:
    os.setsid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != server:
        os._exit(1)  # it ended before that
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.closerange(3, 1 << 16)
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.path[:0] = [path for path in _paths(os.environ) if path not in sys.path]
    sys.argv = [PREFIX + request["service"], *request["arguments"]]


if __name__ == "__main__":
    serve(sys.argv[1])
