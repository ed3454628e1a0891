"""A workspace's folder and processes go away with their owner, and only with it."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mainspring.devstack import keeper, process
from mainspring.devstack.errors import DevstackError
from mainspring.devstack.workspace import open_workspace, sweep

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary folder of the test's own, open to the servers' account, which pytest's are not."""
    with tempfile.TemporaryDirectory(prefix="devstack-test-") as folder:
        Path(folder).chmod(0o755)
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


def test_a_workspace_is_gone_with_all_that_runs_for_it(temporary: Path) -> None:
    with open_workspace() as workspace:
        assert list(temporary.glob("*")) == [workspace.path]
        sleeper = workspace.spawn(["/bin/sleep", "60"], {}, workspace.path / "log")
        assert sleeper.pid in keeper.belongings(workspace.path)
    assert sleeper.wait() == -signal.SIGKILL
    assert not list(temporary.iterdir())


def test_a_workspace_is_cleared_when_the_block_raises(temporary: Path) -> None:
    with pytest.raises(KeyboardInterrupt), open_workspace():
        raise KeyboardInterrupt
    assert not list(temporary.iterdir())


def test_servers_see_nothing_of_the_owners_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGDATA", "/elsewhere")
    monkeypatch.setenv("RABBITMQ_NODENAME", "another")
    with open_workspace() as workspace:
        words = workspace.run(["/usr/bin/env"]).split()
    assert {word.partition("=")[0] for word in words} == {"PATH", "LANG", keeper.MARKER}


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user's servers run as that user")
def test_a_temporary_folder_that_is_closed_to_the_servers_is_named(temporary: Path) -> None:
    temporary.chmod(0o700)
    with pytest.raises(DevstackError, match=rf"can't enter {temporary}; set TMPDIR"), open_workspace():
        pass
    assert not list(temporary.iterdir())


def test_a_dead_owners_folder_is_swept_and_a_living_ones_is_not(temporary: Path) -> None:
    dead, alive = temporary / "mainspring-dead", temporary / "mainspring-alive"
    for folder in (dead, alive):
        folder.mkdir()
        (folder / "owner").write_text("1\n")
    with (alive / "owner").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        sweep()
    assert [folder.name for folder in temporary.iterdir()] == [alive.name]


def test_what_still_runs_for_a_dead_owner_is_ended_by_the_sweep(temporary: Path) -> None:
    dead = temporary / "mainspring-dead"
    dead.mkdir()
    (dead / "owner").touch()
    with subprocess.Popen(["/bin/sleep", "60"], env={keeper.MARKER: str(dead)}) as sleeper:
        sweep()
        assert sleeper.wait(5) == -signal.SIGKILL


def test_folders_of_other_kinds_are_let_alone(temporary: Path) -> None:
    (temporary / "mainspring-notes").mkdir()
    sweep()
    assert (temporary / "mainspring-notes").exists()


OWNER = """
import sys, time
from mainspring.devstack.errors import DevstackError
from mainspring.devstack.workspace import open_workspace
with open_workspace() as workspace:
    print(workspace.spawn(["/bin/sleep", "60"], {}, workspace.path / "log").pid, flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_outlives_an_owner_that_a_signal_ends(temporary: Path, signum: signal.Signals) -> None:
    environment = {"TMPDIR": str(temporary)}
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with owner:
        assert owner.stdout
        sleeper = int(owner.stdout.readline())
        owner.send_signal(signum)
    assert process.wait_gone([sleeper])
    assert _becomes_empty(temporary)


def _becomes_empty(folder: Path) -> bool:
    keepers = [pid for pid in process.descendants(1) if str(folder) in _command(pid)]
    return process.wait_gone(keepers) and not list(folder.iterdir())


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""
