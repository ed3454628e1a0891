"""The keeper: a small process that outlives the owner of a stack and clears up after it.

However the owner ends (SIGTERM, SIGKILL, a crash), the keeper sees itself orphaned, kills what the owner
started and removes its folder. A signal on the parent's death (Linux's PR_SET_PDEATHSIG) would be tied to the
thread that started the server, is reset by a change of user, and leaves the folder behind.

Whatever belongs to a workspace carries the workspace's path in its environment, so nothing has to be
registered and a reused pid can't be taken for a server. Run as a file by `python -I -S`: standard library
only, no siblings.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

MARKER = "MAINSPRING_DEVSTACK"
#: The file in a workspace that names its containers, one a line.
CONTAINERS = "containers"
_LOOK_SECONDS = 0.2
_LATECOMER_SECONDS = 1.0
_CLEAR_SECONDS = 10.0
_IPC_RMID = 0  # sys/ipc.h


def belongings(workspace: Path) -> list[int]:
    """The pids of the living processes started for this workspace (on Linux; elsewhere none is found)."""
    mark = f"{MARKER}={workspace}".encode()
    return [pid for pid in _all_pids() if pid != os.getpid() and mark in _environment(pid)]


def clear(workspace: Path) -> None:
    """Kill what belongs to the workspace and remove its folder; what is gone already is no fault."""
    # Again until none is found: a process may have been started between the look and the blow.
    give_up_at = time.monotonic() + _CLEAR_SECONDS
    while (pids := belongings(workspace)) and time.monotonic() < give_up_at:
        for pid in pids:
            _kill(pid)
        time.sleep(0.01)
    remove_containers(workspace / CONTAINERS)
    for pid_file in workspace.glob("*/data/postmaster.pid"):
        free_shared_memory(pid_file)
    shutil.rmtree(workspace, ignore_errors=True)


def remove_containers(names: Path) -> None:
    """Remove the containers that the file names, with their data; none without the file or the docker command."""
    docker = shutil.which("docker")
    if names.exists() and docker:
        containers = names.read_text().split()
        subprocess.run([docker, "rm", "--force", "--volumes", *containers], capture_output=True, check=False)


def free_shared_memory(pid_file: Path) -> None:
    """Free the System V segment of a Postgres that was killed, which lasts until the machine's next boot.

    Its key and its id are line 7 of the pid file (PostgreSQL's pidfile.h).
    """
    lines = pid_file.read_text().splitlines()
    if len(lines) >= 7 and lines[6].strip():
        segment = int(lines[6].split()[1])
        ctypes.CDLL(None).shmctl(segment, _IPC_RMID, None)


def main(owner: int, workspace: Path) -> None:
    """Wait until the owner is no longer this process's parent, then clear up."""
    while os.getppid() == owner:
        time.sleep(_LOOK_SECONDS)
    clear(workspace)
    # A child that was forked as its owner was killed bears the mark only once it runs its program.
    time.sleep(_LATECOMER_SECONDS)
    clear(workspace)


def _all_pids() -> list[int]:
    proc = Path("/proc")
    return [int(entry.name) for entry in proc.iterdir() if entry.name.isdigit()] if proc.is_dir() else []


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:  # gone, a kernel thread, or another user's
        return []


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
