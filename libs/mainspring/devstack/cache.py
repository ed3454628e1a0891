"""The folder that keeps what a first run fetched, and the locks that keep two first runs apart."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mainspring.devstack.errors import ProvisioningError

if TYPE_CHECKING:
    from collections.abc import Iterator


def cache_folder() -> Path:
    """This user's folder, whether it exists or not; root's is one that the servers' account can read."""
    if os.geteuid() == 0:
        return Path("/var/cache/mainspring")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mainspring"


@contextmanager
def cache_locked() -> Iterator[None]:
    """Make the folder if need be and hold its lock; whoever comes second waits. Raises ProvisioningError.

    The kernel frees the lock should its holder die.
    """
    with _lock_file().open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _lock_file() -> Path:
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
    except OSError as error:
        raise ProvisioningError(f"No cache folder {folder}: {error}. Set XDG_CACHE_HOME.") from error
    return folder / "lock"
