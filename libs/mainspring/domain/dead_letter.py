"""How dead letters are grouped: by task, error type and the frame that raised."""

from __future__ import annotations

import hashlib
import re

from mainspring.domain.settlement import AttemptError

_FRAME = re.compile(r'File "(?:[^"]*/)?([^"/]+)", line \d+, in (\S+)')


def fingerprint(task: str, reason: str, error: AttemptError | None) -> str:
    """A short stable name of one kind of failure: 16 hexadecimal digits.

    The last frame counts without its line number and folder, so that an edit above it or another
    machine doesn't make a new kind.
    """
    frames = _FRAME.findall(error.traceback) if error else []
    parts = [task, reason, error.type if error else "", *(frames[-1] if frames else ())]
    return hashlib.blake2b("\x1f".join(parts).encode(), digest_size=8).hexdigest()
