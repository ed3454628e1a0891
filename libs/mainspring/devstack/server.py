"""A server and the faults it can be put through."""

from __future__ import annotations

import signal
import subprocess
import time
from typing import TYPE_CHECKING, Protocol

from mainspring.devstack import process
from mainspring.devstack.errors import NotOursError, NotReadyError, ServerDiedError

if TYPE_CHECKING:
    from pathlib import Path

    from mainspring.devstack.log import ServerLog

_LOOK_SECONDS = 0.02
_PORT_ATTEMPTS = 5
_START_SECONDS = 120.0
_STOP_SECONDS = 30.0


class Program(Protocol):
    """How one kind of server is made, started and known to be ready; `Server` does the rest."""

    name: str
    port: int
    log: ServerLog
    stop_signal: signal.Signals

    def choose_ports(self) -> None:
        """Take other free ports."""

    def create(self) -> None:
        """Make fresh data, unless there are some."""

    def erase(self) -> None:
        """Delete the data."""

    def launch(self) -> subprocess.Popen[bytes]:
        """Start the server's process and return at once."""

    def is_ready(self, pid: int) -> bool:
        """Whether the process with this pid serves: never true of another server on the same port."""

    def close(self) -> None:
        """End whatever runs beside the server's own process."""


class Server:
    """A server by its program; without one (a server given by its URL) every fault raises NotOursError."""

    def __init__(self, name: str, program: Program | None) -> None:
        self.name = name
        self._given_program = program
        self._process: subprocess.Popen[bytes] | None = None
        self._ports_are_final = False

    @property
    def is_ours(self) -> bool:
        """Whether the devstack runs it, so that it can be broken."""
        return self._given_program is not None

    @property
    def log_path(self) -> Path:
        """The file that holds what the server has written since its first start."""
        return self._program.log.path

    def start(self, timeout: float = _START_SECONDS) -> None:
        """Start the server on its port and data and wait until it serves (seconds); if it runs, that is fine.

        Raises ServerDiedError or NotReadyError.
        """
        self.begin()
        self.finish(timeout)

    def begin(self) -> None:
        """Start the server's process without waiting; `finish` waits. So two servers start side by side."""
        if self._is_alive():
            return
        program = self._program
        if not self._ports_are_final:
            program.choose_ports()
        program.create()
        program.log.mark()
        self._process = program.launch()

    def finish(self, timeout: float = _START_SECONDS) -> None:
        """Wait until what `begin` started serves; if it lost a port to another process, on other ports."""
        for attempts_left in reversed(range(_PORT_ATTEMPTS)):
            try:
                self.wait_ready(timeout)
            except ServerDiedError:
                if not (self._program.log.tells_of_a_taken_port() and attempts_left):
                    raise
                self.begin()
            else:
                self._ports_are_final = True
                return

    def wait_ready(self, timeout: float = _START_SECONDS) -> None:
        """Wait until the server serves (seconds); raises ServerDiedError or NotReadyError."""
        give_up_at = time.monotonic() + timeout
        child, log = self._child, self._program.log
        while not self._program.is_ready(child.pid):
            if child.poll() is not None:
                raise ServerDiedError(f"{self.name} ended with {child.returncode}:\n{log.tail()}")
            if time.monotonic() > give_up_at:
                raise NotReadyError(f"{self.name} is not ready after {timeout:g} s:\n{log.tail()}")
            time.sleep(_LOOK_SECONDS)

    def kill(self) -> None:
        """SIGKILL the server and all its children at one instant, and wait until they are gone."""
        if self._is_alive():
            # Frozen first: no child is born between the look and the blow, none acts on another's death.
            pids = process.freeze_tree(self._child.pid)
            process.send(pids, signal.SIGKILL)
            self._child.wait()
            process.wait_gone(pids)

    def stop(self, timeout: float = _STOP_SECONDS) -> None:
        """Ask the server to shut down in good order and wait; one that takes longer (seconds) is killed."""
        if not self._is_alive():
            return
        self.thaw()
        pids = self.pids()
        process.send([self._child.pid], self._program.stop_signal)
        try:
            self._child.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
        process.wait_gone(pids)

    def restart(self) -> None:
        """Stop in good order, start again on the same port and data, and wait until it serves."""
        self.stop()
        self.start()

    def freeze(self) -> None:
        """SIGSTOP the server and all its children: connections stay open and nothing answers."""
        process.freeze_tree(self._child.pid)

    def thaw(self) -> None:
        """Let a frozen server go on."""
        process.send(self.pids(), signal.SIGCONT)

    def wipe(self) -> None:
        """Kill the server, delete its data, start it anew on the same port, and wait until it serves."""
        self.kill()
        self._program.erase()
        self.start()

    def pids(self) -> list[int]:
        """The pids of the server and all its children, the server's own first; none when it is down."""
        if not self._is_alive():
            return []
        return [self._child.pid, *process.descendants(self._child.pid)]

    def close(self) -> None:
        """Kill what was started here; a server given by its URL is left alone."""
        if self._given_program:
            self.kill()
            self._given_program.close()

    @property
    def _program(self) -> Program:
        if self._given_program is None:
            raise NotOursError(f"{self.name} was given by its URL; the devstack neither starts nor breaks it.")
        return self._given_program

    @property
    def _child(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise NotReadyError(f"{self._program.name} was never started.")
        return self._process

    def _is_alive(self) -> bool:
        return self._program is not None and self._process is not None and self._process.poll() is None
