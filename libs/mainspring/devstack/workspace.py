"""A stack's temporary folder: what lies in it and what runs for it goes away together.

The owner holds a lock on the file `owner` in the folder for as long as it lives. The kernel lets go of it
however the owner ends, so a folder whose lock can be taken is a dead owner's, whatever has become of its pid
since.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO

from mainspring.devstack import keeper, process
from mainspring.devstack.errors import DevstackError, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PREFIX = "mainspring-"
_UNBORN = ".mainspring-"


class Workspace:
    """The folder of one stack, and the place where its processes are started."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.account = process.unprivileged_account()

    def environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        """A bare environment for a child: nothing of the owner's settings for Postgres or RabbitMQ."""
        marker = {keeper.MARKER: str(self.path)}
        return {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8", **extra, **marker}

    def folder(self, name: str) -> Path:
        """Make a folder in the workspace that belongs to the account of the servers."""
        folder = self.path / name
        folder.mkdir(mode=0o700, exist_ok=True)
        self.hand_over(folder)
        return folder

    def write(self, path: Path, text: str, mode: int = 0o600) -> Path:
        """Write a file that belongs to the account of the servers."""
        path.unlink(missing_ok=True)
        path.touch(0o600)
        path.write_text(text)
        self.hand_over(path)
        path.chmod(mode)
        return path

    def hand_over(self, path: Path) -> None:
        """Give a file or folder to the account of the servers."""
        if self.account:
            os.chown(path, self.account.uid, self.account.gid)

    def run(self, argv: list[str], env: Mapping[str, str] | None = None) -> str:
        """Run a short command as the servers' account; returns its output, raises RefusedError."""
        return process.run(argv, env=self.environment(env or {}), account=self.account)

    def spawn(self, argv: list[str], env: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
        """Start a server in a session of its own, so that the terminal's Ctrl-C reaches the owner only."""
        with log.open("ab") as output, ThreadPoolExecutor(1) as thread:
            # In a thread: a Ctrl-C between the fork and the server's first breath would leave a child without its mark.
            return thread.submit(self._spawn, argv, env, output).result()

    def _spawn(self, argv: list[str], env: Mapping[str, str], output: BinaryIO) -> subprocess.Popen[bytes]:
        privileges = self.account.privileges() if self.account else process.Privileges()
        return subprocess.Popen(
            argv,
            env=self.environment(env),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            **privileges,
        )


@contextmanager
def open_workspace() -> Iterator[Workspace]:
    """Sweep what dead owners left, then make a workspace that lasts until the block or the process ends.

    Raises DevstackError when the servers' account can't enter the temporary folder.
    """
    sweep()
    path, lock = _create()
    try:
        watcher = _start_keeper(path)
        try:
            workspace = Workspace(path)
            _make_sure_of_reach(workspace)
            yield workspace
        finally:
            keeper.clear(path)
            watcher.kill()
            watcher.wait()
    finally:
        shutil.rmtree(path, ignore_errors=True)
        lock.close()


def sweep() -> None:
    """Clear the workspaces whose owner is dead."""
    for owner_file in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/owner"):
        if _is_orphan(owner_file):
            keeper.clear(owner_file.parent)


def _create() -> tuple[Path, IO[str]]:
    # Under its final name only when the lock is held: a sweep at this moment must not take it for an orphan.
    unborn = Path(tempfile.mkdtemp(prefix=_UNBORN))
    lock = (unborn / "owner").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    print(os.getpid(), file=lock, flush=True)
    unborn.chmod(0o711)  # the servers' account passes through
    path = unborn.with_name(_PREFIX + unborn.name.removeprefix(_UNBORN))
    return unborn.rename(path), lock


def _make_sure_of_reach(workspace: Workspace) -> None:
    try:
        workspace.run(["test", "-x", str(workspace.path)])
    except RefusedError as refusal:
        text = (
            f"The account that the servers run as can't enter {workspace.path.parent}; set TMPDIR to a folder it can."
        )
        raise DevstackError(text) from refusal


def _is_orphan(owner_file: Path) -> bool:
    try:
        with owner_file.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # held, another user's, or gone meanwhile
        return False
    return True


def _start_keeper(path: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", keeper.__file__, str(os.getpid()), str(path)],
        env={},  # above all no mark of a stack around this one, whose keeper would kill ours
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
