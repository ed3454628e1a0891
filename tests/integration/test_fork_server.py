"""The tests' own way to start services: what comes of it is a process like any other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools.fork_server import ForkedService, ForkServer

ARGV = [sys.executable, "-m", "mainspring_services.dispatcher"]
NOWHERE = {"MAINSPRING_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none", "MAINSPRING_DISPATCHER_HEALTH_PORT": "0"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ForkServer]:
    one = ForkServer(tmp_path)
    yield one
    one.close()


def test_exit_codes_signals_environment_and_log_are_those_of_a_process(server: ForkServer, tmp_path: Path) -> None:
    with (tmp_path / "log").open("ab") as log:
        wrong = server.start(ARGV, env=os.environ | {"MAINSPRING_DISPATCHER_HEALTH_PORT": "x"}, stdout=log)
        assert isinstance(wrong, ForkedService)
        assert wrong.wait(20) == 2
        assert (tmp_path / "log").read_text().count("MAINSPRING_DISPATCHER_HEALTH_PORT") == 1
        waits = server.start(ARGV, env=os.environ | NOWHERE, stdout=log)
        with pytest.raises(subprocess.TimeoutExpired):
            waits.wait(0.2)
        assert (waits.poll(), os.getsid(waits.pid)) == (None, waits.pid)
        waits.send_signal(signal.SIGKILL)
        assert (waits.wait(20), waits.poll()) == (-signal.SIGKILL, -signal.SIGKILL)
        waits.send_signal(signal.SIGTERM)


def test_its_children_end_with_it(tmp_path: Path) -> None:
    server = ForkServer(tmp_path)
    with (tmp_path / "log").open("ab") as log:
        waits = server.start(ARGV, env=os.environ | NOWHERE, stdout=log)
    server.close()
    assert waits.wait(20) == -signal.SIGKILL


@pytest.mark.parametrize("variable", ["OTEL_SERVICE_NAME", "PYTHONTZPATH", "MAINSPRING_FAULT_POINTS"])
def test_what_is_read_while_modules_are_imported_takes_an_interpreter(
    server: ForkServer, tmp_path: Path, variable: str
) -> None:
    with (tmp_path / "log").open("ab") as log:
        one = server.start(ARGV, env=os.environ | NOWHERE | {variable: ""}, stdout=log)
    assert isinstance(one, subprocess.Popen)
    one.kill()
    one.wait(20)
