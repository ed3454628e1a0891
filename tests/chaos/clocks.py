"""A clock for each service that can be wrong: Debian's libfaketime, told by a file what to add to the time.

Only the time of day is faked. A process's runners are its children and share its clock. The library looks into the file
each time that it is asked (``FAKETIME_NO_CACHE``), so a clock jumps while its process runs.
"""

from __future__ import annotations

import os
from pathlib import Path

from tests.tools.debian import program

PACKAGE = "faketime"
LIBRARY = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
#: A folder that goes first on the import path of such a process.
PATH = Path(__file__).parent / "faked"
_SHARED = Path("/dev/shm")  # noqa: S108  where the library has its shared memory


class Clocks:
    """The clocks of a world's services, by number. Skips the test where the library can't be had."""

    def __init__(self, folder: Path) -> None:
        self._library = program(PACKAGE, LIBRARY)
        self._folder = folder / "clocks"
        self._folder.mkdir()

    def environment(self, number: int) -> dict[str, str]:
        """The variables that give a process this clock, which is right at first."""
        self.set(number, 0)
        return {
            "LD_PRELOAD": str(self._library),
            # Waits for a time measured by it would hang.
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_TIMESTAMP_FILE": str(self._file(number)),
            "FAKETIME_NO_CACHE": "1",
        }

    def set(self, number: int, seconds: int) -> None:
        """Have a clock go so many seconds ahead, or behind."""
        unfinished = self._folder / "unfinished"
        unfinished.write_text(f"{seconds:+d}\n")
        unfinished.replace(self._file(number))

    @staticmethod
    def close() -> None:
        """Remove the shared memory of processes that were killed: the library names it by their pids."""
        for one in [*_SHARED.glob("faketime_shm_*"), *_SHARED.glob("sem.faketime_sem_*")]:
            if not Path("/proc", one.name.rpartition("_")[2]).exists() and one.owner() == _user():
                one.unlink(missing_ok=True)

    def _file(self, number: int) -> Path:
        return self._folder / str(number)


def _user() -> str:
    return Path(f"/proc/{os.getpid()}").owner()
