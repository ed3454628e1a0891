"""Named steps of the protocol at which a test can have a process die, or be told that what happened has failed.

Off unless ``MAINSPRING_FAULT_POINTS`` is set, which only a test does: ``release.committed=0.01,publish=0.01`` gives
each step the chance with which it strikes. Between two steps lies one commit, publish, confirm or acknowledgement: to
die at each of them in turn is what the protocol is made for.
"""

from __future__ import annotations

import os
import random
import signal

VARIABLE = "MAINSPRING_FAULT_POINTS"
#: Where a process can die: what has just happened.
CRASHES = frozenset(
    {
        "submit.committed",  # not answered yet
        "fire.committed",
        "release.committed",  # not published yet
        "release.confirmed",  # its outbox row is still there
        "admission.committed",  # not published yet
        "dispatch.confirmed",  # its message is not acknowledged yet
        "claim.committed",  # no handler has started
        "handler.committed",  # the supervisor doesn't know
        "settlement.committed",  # no message sent, none acknowledged
        "settlement.announced",  # not acknowledged yet
        "reclaim.committed",  # not announced yet
        "alert.sent",  # not recorded yet
        "acknowledged",
    }
)
#: What can be done, and reported as failed.
LIES = frozenset({"database", "publish"})


def _armed() -> dict[str, float]:
    pairs = [part.split("=") for part in os.environ.get(VARIABLE, "").split(",") if part]
    found = {name.strip(): float(chance) for name, chance in pairs}
    if unknown := set(found) - CRASHES - LIES:
        raise ValueError(f"{VARIABLE}: no such step: {', '.join(sorted(unknown))}")
    return found


_chances = _armed()


def reach(step: str) -> None:
    """Die here, as by a power cut, if a test says so."""
    if _chances and random.random() < _chances.get(step, 0):  # noqa: S311  chance, not a secret
        os.kill(os.getpid(), signal.SIGKILL)


def is_lie(what: str) -> bool:
    """True when the caller is to be told that what has just been done has failed."""
    return bool(_chances) and random.random() < _chances.get(what, 0)  # noqa: S311
