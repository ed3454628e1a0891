"""Which orders a runner has begun, decided once between it and its supervisor, even while its event loop is blocked.

For each order the supervisor puts a token into a pipe whose reading end both processes hold. A handler begins with its
token in hand. A supervisor that sees its runner stuck takes the tokens that are left: those orders can't begin there
any more, and are free to run elsewhere under the same lease.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable

_TOKEN = struct.Struct("q")
#: As many as are written in one piece: half a page.
_PIECE = 256
#: What a pipe of 16 pages holds for certain: a write that doesn't fit into the rest of a page takes another one, so
#: half of each may stay empty. A worker has at most so many slots.
MOST = 4_000


def issue(pipe: int, keys: Iterable[int]) -> None:
    """Supervisor's side: let the orders ``keys`` begin. A runner that has ended is no error."""
    tokens = [_TOKEN.pack(key) for key in keys]
    for first in range(0, len(tokens), _PIECE):
        try:
            os.write(pipe, b"".join(tokens[first : first + _PIECE]))
        except BrokenPipeError:
            return


def take_back(pipe: int) -> set[int]:
    """Supervisor's side: the orders that have not begun, and never will in that runner."""
    keys: set[int] = set()
    while tokens := _read(pipe, _TOKEN.size * _PIECE):
        keys.update(key for (key,) in _TOKEN.iter_unpack(tokens))
    return keys


class StartGate:
    """Runner's side: takes the tokens, in the order in which they were issued."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._in_hand: set[int] = set()

    def may_begin(self, key: int) -> bool:
        """Take the token of ``key``; False when the supervisor has taken it back."""
        while key not in self._in_hand:
            token = _read(self._pipe, _TOKEN.size)
            if not token:
                return False
            self._in_hand.add(*_TOKEN.unpack(token))
        self._in_hand.remove(key)
        return True


def _read(pipe: int, size: int) -> bytes:
    try:
        return os.read(pipe, size)
    except BlockingIOError:
        return b""
