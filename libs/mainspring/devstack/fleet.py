"""Mainspring's own services as child processes: for `mainspring dev`, the demo, the benchmarks and the tests.

Each can be killed, stopped, frozen and started again. All of them carry the workspace's mark, so they go with
the servers however their owner ends.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

from mainspring.devstack import keeper, process
from mainspring.devstack.errors import RefusedError
from mainspring.devstack.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

READY_SECONDS = 30.0
STOP_SECONDS = 20.0


class ServiceProcess:
    """One service process, with what is needed to start it again."""

    #: How a process is begun.
    begin: ClassVar[Callable[..., subprocess.Popen[bytes]]] = subprocess.Popen

    def __init__(self, name: str, argv: list[str], environment: Mapping[str, str], log_path: Path, port: int) -> None:
        self.name = name
        self.log_path = log_path
        self.port = port
        self._argv = argv
        self._environment = dict(environment)
        self._process: subprocess.Popen[bytes] | None = None
        #: How long the log was when it was started.
        self._log_start = 0

    @property
    def pid(self) -> int:
        """The id of the running process. Raises RefusedError when it doesn't run."""
        if self._process is None:
            raise RefusedError(f"{self.name} doesn't run")
        return self._process.pid

    def pids(self) -> list[int]:
        """The process and its descendants: a worker's runners among them."""
        return [self.pid, *process.descendants(self.pid)]

    def set_environment(self, name: str, value: str) -> None:
        """Change a variable for the next start."""
        self._environment[name] = value

    def start(self) -> None:
        """Start the process; returns at once."""
        with self.log_path.open("ab") as log:
            self._log_start = log.tell()
            self._process = type(self).begin(
                self._argv,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self) -> None:
        """SIGKILL, as a machine's memory killer would."""
        self._end(signal.SIGKILL)

    def stop(self, timeout: float = STOP_SECONDS) -> int:
        """SIGTERM; returns the exit code."""
        return self._end(signal.SIGTERM, timeout)

    def freeze(self) -> None:
        """SIGSTOP of this process alone: a worker's runners go on."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    def restart(self) -> None:
        """Start it again after its end."""
        if self.is_running:
            self.stop()
        self.start()

    @property
    def has_begun(self) -> bool:
        """Whether it has written to its log since its start; before that Python itself is starting."""
        return self.log_path.stat().st_size > self._log_start

    @property
    def is_running(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def wait(self, timeout: float = STOP_SECONDS) -> int:
        """Wait for the end; returns the exit code. Raises RefusedError with the end of the log."""
        if self._process is None:
            raise RefusedError(f"{self.name} doesn't run")
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise RefusedError(f"{self.name} still runs after {timeout:g} s:\n{self.log_tail()}") from None

    def wait_ready(self, timeout: float = READY_SECONDS) -> None:
        """Wait until /readyz says so. Raises RefusedError with the end of the log."""
        give_up_at = time.monotonic() + timeout
        while not self._is_ready():
            if not self.is_running or time.monotonic() > give_up_at:
                raise RefusedError(f"{self.name} is not ready:\n{self.log_tail()}")
            time.sleep(0.02)

    def log_tail(self, lines: int = 20) -> str:
        """The last lines of its log."""
        if not self.log_path.exists():
            return "(no log)"
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=1) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def _end(self, signum: signal.Signals, timeout: float = STOP_SECONDS) -> int:
        if self._process is None:
            raise RefusedError(f"{self.name} doesn't run")
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signum)
        return self.wait(timeout)


class Fleet:
    """Starts services against two servers and keeps count of them."""

    def __init__(self, environment: Mapping[str, str], folder: Path) -> None:
        self._environment = dict(environment)
        self._folder = folder
        self.services: list[ServiceProcess] = []

    def start(self, service: str, *arguments: str, **settings: object) -> ServiceProcess:
        """Start a service (``scheduler``, ``dlq_handler``, …); returns at once.

        ``settings`` are its own knobs, in lower case: ``slots=20`` is ``MAINSPRING_WORKER_SLOTS=20``.
        """
        port = int(str(settings.get("port", free_ports(1)[0])))
        prefix = f"MAINSPRING_{service.upper()}_"
        knobs = {"host": "127.0.0.1", "port": port} if service == "api" else {"health_port": port}
        environment = self._environment | {
            prefix + name.upper(): str(value) for name, value in (knobs | settings).items()
        }
        log_path = self._folder / f"{service}-{len(self.services)}.log"
        argv = [sys.executable, "-m", f"mainspring_services.{service}", *arguments]
        one = ServiceProcess(service, argv, environment, log_path, port)
        one.start()
        self.services.append(one)
        return one

    def set_environment(self, name: str, value: str) -> None:
        """Change a variable for the services that are started from now on."""
        self._environment[name] = value

    def migrate(self) -> None:
        """Bring the database up to this release. Raises RefusedError."""
        process.run([sys.executable, "-m", "mainspring.cli.main", "migrate"], env=self._environment)

    def wait_ready(self) -> None:
        """Wait until every running service is ready. Raises RefusedError."""
        for one in self.services:
            if one.is_running:
                one.wait_ready()

    def stop(self) -> None:
        """Stop all services; what doesn't obey in time is killed."""
        running = [one for one in self.services if one.is_running]
        for one in running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(one.pid, signal.SIGTERM)
        for one in running:
            try:
                one.wait()
            except RefusedError:
                one.kill()


@contextmanager
def open_fleet(urls: Mapping[str, str], workspace: Path, name: str = "services", **environment: str) -> Iterator[Fleet]:
    """A fleet on the servers of ``urls``, stopped when the block ends.

    ``workspace``: the folder of the stack; logs lie in its folder ``name``, and should the owner be killed, the
    services go with the servers.
    """
    folder = workspace / name
    folder.mkdir(parents=True, exist_ok=True)
    inherited = {variable: value for variable, value in os.environ.items() if not variable.startswith("MAINSPRING_")}
    if "PYTHONPATH" in inherited and "PYTHONPATH" in environment:
        # Where this process was told to import from comes first for its services too.
        environment["PYTHONPATH"] = os.pathsep.join([inherited["PYTHONPATH"], environment["PYTHONPATH"]])
    fleet = Fleet({**inherited, **urls, **environment, keeper.MARKER: str(workspace)}, folder)
    try:
        yield fleet
    finally:
        fleet.stop()
