"""Process trees are found, frozen and ended as a whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mainspring.devstack import process
from mainspring.devstack.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator

# A child in a session of its own, as Postgres's backends are.
FAMILY = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
print("ready", flush=True)
time.sleep(60)
"""


@pytest.fixture
def parent() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, "-c", FAMILY], stdout=subprocess.PIPE, text=True) as family:
        assert family.stdout
        assert family.stdout.readline() == "ready\n"
        yield family
        process.send([family.pid, *process.descendants(family.pid)], signal.SIGKILL)


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_descendants_are_found_beyond_sessions(parent: subprocess.Popen[str]) -> None:
    (child,) = process.descendants(parent.pid)
    assert os.getsid(child) == child
    assert child in process.descendants(os.getpid())


def test_freeze_stops_the_whole_tree_and_a_signal_lets_it_go_on(parent: subprocess.Popen[str]) -> None:
    pids = process.freeze_tree(parent.pid)
    assert len(pids) == 2
    assert [state(pid) for pid in pids] == ["T", "T"]
    process.send(pids, signal.SIGCONT)
    assert "T" not in [state(pid) for pid in pids]


def test_a_signal_to_a_process_that_is_gone_is_no_fault(parent: subprocess.Popen[str]) -> None:
    pids = process.freeze_tree(parent.pid)
    process.send(pids, signal.SIGKILL)
    parent.wait()
    assert process.wait_gone(pids)
    process.send(pids, signal.SIGKILL)


def test_wait_gone_gives_up_in_time() -> None:
    assert not process.wait_gone([os.getpid()], timeout=0.05)


def test_run_returns_the_output_or_raises_the_commands_own_words() -> None:
    assert process.run(["/bin/echo", "seen"], env={}) == "seen\n"
    with pytest.raises(RefusedError, match=r"^sh: no such luck$"):
        process.run(["/bin/sh", "-c", "echo no such luck >&2; exit 3"], env={})


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can lower its privileges")
def test_root_gets_an_unprivileged_account_for_the_servers() -> None:
    account = process.unprivileged_account()
    assert account
    assert account.uid != 0
    assert process.run(["/usr/bin/id", "-u"], env={}, account=account).strip() == str(account.uid)
