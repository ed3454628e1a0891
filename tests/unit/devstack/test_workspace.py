"""A workspace's folder and processes go away with their owner, and only with it."""

from __future__ import annotations

import fcntl
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from mainspring.devstack import keeper, process
from mainspring.devstack.workspace import open_workspace, sweep


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder of the test's own, so that it sees nothing of other stacks."""
    tmp_path.chmod(0o755)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


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
