"""However the owner of a stack ends, nothing of it runs on or lies about."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from mainspring.devstack import keeper
from mainspring.devstack.process import wait_gone
from mainspring.devstack.stack import AMQP_URL, DATABASE_URL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mainspring.devstack import Stack

pytestmark = pytest.mark.xdist_group("devstack")


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A temporary folder that the servers' account can enter; pytest closes its own again and again."""
    with tempfile.TemporaryDirectory(prefix="devstack-test-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


OWNER = """
import sys, time
from mainspring.devstack import start_stack
with start_stack() as stack:
    print(*stack.postgres.pids(), *stack.rabbitmq.pids(), stack.rabbitmq._rabbit._epmd.pid, flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_is_left_of_an_owner_that_a_signal_ends(temporary: Path, signum: signal.Signals) -> None:
    with owner(temporary, [sys.executable, "-c", OWNER]) as process:
        assert process.stdout
        pids = [int(word) for word in process.stdout.readline().split()]
        assert len(pids) > 8
        process.send_signal(signum)
    assert wait_gone(pids, 5)
    assert nothing_is_left(temporary)


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_is_left_of_an_owner_that_a_signal_ends_on_the_way(temporary: Path, signum: signal.Signals) -> None:
    with owner(temporary, [sys.executable, "-c", OWNER]) as process:
        assert becomes_true(lambda: list(temporary.glob("mainspring-*/rabbitmq/log")))
        pids = [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
        process.send_signal(signum)
    assert pids
    assert wait_gone(pids, 5)
    assert nothing_is_left(temporary)


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_script_that_is_run_with_a_stack_goes_with_it(
    tmp_path: Path, temporary: Path, stack: Stack, signum: signal.Signals
) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import os, time\n"
        f"print(os.getpid(), os.environ[{DATABASE_URL!r}], os.environ[{AMQP_URL!r}], flush=True)\n"
        "time.sleep(60)\n"
    )
    run = [sys.executable, "-m", "mainspring.devstack.run", str(script)]
    with owner(temporary, run, stack.environment()) as process:
        assert process.stdout
        pid, *urls = process.stdout.readline().split()
        assert urls == [stack.postgres.url, stack.rabbitmq.url]
        process.send_signal(signum)
    assert wait_gone([int(pid)], 5)
    assert nothing_is_left(temporary)


@contextlib.contextmanager
def owner(
    temporary: Path, argv: list[str], environment: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A process that owns a stack, with a temporary folder of its own."""
    env = {"PATH": os.environ["PATH"], "TMPDIR": str(temporary), **(environment or {})}
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True) as process:
        yield process


def nothing_is_left(temporary: Path) -> bool:
    """Whether the folder becomes empty and nothing runs any more for a stack in it."""
    return becomes_true(lambda: not list(temporary.iterdir()) and not processes_of_stacks_in(temporary))


def processes_of_stacks_in(temporary: Path) -> list[int]:
    mark = f"{keeper.MARKER}={temporary}/".encode()
    return [pid for pid in psutil.pids() if any(word.startswith(mark) for word in keeper._environment(pid))]


def becomes_true(condition: Callable[[], object], timeout: float = 10.0) -> bool:
    """Whether the condition comes to hold in time."""
    give_up_at = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > give_up_at:
            return False
        time.sleep(0.02)
    return True
