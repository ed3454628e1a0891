"""Child processes and their descendants: found, signalled as a whole, run under an unprivileged account."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from mainspring.devstack.errors import RefusedError

_GONE = "ZX"  # a zombie runs no more
_STOPPED = "Tt" + _GONE
_STOP_SECONDS = 1.0


class Privileges(TypedDict, total=False):
    """The arguments of Popen that lower a child's privileges."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True)
class Account:
    """The account that servers run as when their owner is root, which Postgres refuses to serve."""

    uid: int
    gid: int

    def privileges(self) -> Privileges:
        """As arguments of Popen."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []}


def unprivileged_account() -> Account | None:
    """The account for servers: none for an ordinary user; `postgres`, else `nobody`, for root."""
    if os.geteuid() != 0:
        return None
    entries = {entry.pw_name: entry for entry in pwd.getpwall()}
    entry = entries.get("postgres") or entries["nobody"]
    return Account(entry.pw_uid, entry.pw_gid)


def run(argv: list[str], *, env: dict[str, str], account: Account | None = None) -> str:
    """Run a short command and return its output; raises RefusedError with the command's own words."""
    privileges = account.privileges() if account else Privileges()
    done = subprocess.run(
        argv,
        env=env,
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        **privileges,
    )
    if done.returncode != 0:
        raise RefusedError(f"{Path(argv[0]).name}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def descendants(pid: int) -> list[int]:
    """The pids of all living descendants of this process."""
    children = defaultdict(list)
    for child, parent in _parents().items():
        children[parent].append(child)
    found: list[int] = []
    level = [pid]
    while level:
        level = [child for parent in level for child in children[parent]]
        found.extend(level)
    return found


def freeze_tree(pid: int) -> list[int]:
    """Stop this process and all its descendants; returns their pids, the process's own first."""
    # From the root down and again until no new one is found: a stopped parent starts no more children.
    frozen: list[int] = []
    tree = [pid]
    while new := [member for member in tree if member not in frozen]:
        send(new, signal.SIGSTOP)
        _wait_for_states(new, _STOPPED, _STOP_SECONDS)
        frozen.extend(new)
        tree = descendants(pid)
    return frozen


def send(pids: list[int], signum: signal.Signals) -> None:
    """Send a signal to these processes; one that is gone is no fault."""
    for pid in pids:
        try:
            os.kill(pid, signum)
        except ProcessLookupError:
            continue


def wait_gone(pids: list[int], timeout: float = 10.0) -> bool:
    """Wait until none of these processes is alive (seconds); whether that came about in time."""
    return _wait_for_states(pids, _GONE, timeout)


def _wait_for_states(pids: list[int], states: str, timeout: float) -> bool:
    give_up_at = time.monotonic() + timeout
    while any(_state(pid) not in states for pid in pids):
        if time.monotonic() > give_up_at:
            return False
        time.sleep(0.005)
    return True


def _parents() -> dict[int, int]:
    proc = Path("/proc")
    if not proc.is_dir():
        return _parents_by_ps()
    pids = [int(entry.name) for entry in proc.iterdir() if entry.name.isdigit()]
    return {pid: int(stat[1]) for pid in pids if (stat := _stat(pid)) and stat[0] not in _GONE}


def _parents_by_ps() -> dict[int, int]:
    lines = run(["ps", "-A", "-o", "pid=,ppid="], env=dict(os.environ)).splitlines()
    return {int(pid): int(parent) for pid, parent in (line.split() for line in lines)}


def _state(pid: int) -> str:
    """The letter of a process's state as proc(5) has it; X for one that is gone."""
    stat = _stat(pid)
    return stat[0] if stat else "X"


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the state on; None when the process is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return text.rpartition(")")[2].split()  # the name before it, in brackets, may hold anything
