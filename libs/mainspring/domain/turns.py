"""Which waiting lines of a queue are served: the first rank first, within it the keys in turn, as limits have room.

Weighted round-robin: at its turn a key has as many jobs as it weighs. What was given stays known from one pass to the
next (``Turns``), so that keys take turns when a pass can only serve one job.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mainspring.domain.job import PRIORITIES
from mainspring.domain.limits import Line, Rooms

_END = "\U0010ffff"


class WaitingLine(NamedTuple):
    """A line, and how many jobs of it wait (as far as anybody has looked)."""

    line: Line
    waiting: int


@dataclass(slots=True)
class Turns:
    """Of a queue, for each priority: where the next pass begins, and what the key there has had of its turn."""

    after: list[str] = field(default_factory=lambda: [""] * PRIORITIES)
    had: list[int] = field(default_factory=lambda: [0] * PRIORITIES)

    def place_of(self, line: Line) -> tuple[int, bool, str]:
        """What lines are sorted by: rank, then those behind the mark of their priority, then the others."""
        return line.rank, line.text <= self.after[line.priority], line.text

    def end(self, priority: int, mark: str) -> None:
        """A turn is over: the next pass begins behind ``mark``."""
        self.after[priority] = mark
        self.had[priority] = 0

    def stop(self, priority: int, turn: str, had: int) -> None:
        """Nothing is left to give: the next pass goes on with this key."""
        self.after[priority] = turn
        self.had[priority] = had


@dataclass(slots=True)
class _Sharing:
    lines: Sequence[WaitingLine]
    rooms: Rooms
    turns: Turns
    weights: Mapping[str, int]
    most_lines: int
    shares: list[int]

    def level(self, rank: int, credit: int) -> int:
        """Give to the keys of one rank in turn; returns how much was given."""
        groups = self._groups(rank)
        is_cut = sum(map(len, groups.values())) >= self.most_lines
        # Of a key whose lines were not all looked at the next pass looks at the others.
        last = {list(groups)[-1]: self.lines[list(groups.values())[-1][-1]].line.text} if is_cut else {}
        queue = deque(groups.items())
        given = 0
        while queue and given < credit:
            (priority, turn), members = queue.popleft()
            weight = self.weights.get(_key(turn), 1)
            # A turn that the last pass could not finish goes on where it was.
            had = self.turns.had[priority] if turn == self.turns.after[priority] else 0
            wanted = credit - given if not queue else min(max(weight - had, 1), credit - given)
            count = self._serve(members, wanted)
            given += count
            if count == wanted and had + count < weight:
                self.turns.stop(priority, turn, had + count)
                break
            self.turns.end(priority, last.get((priority, turn), turn + _END))
            if count == wanted:
                queue.append(((priority, turn), members))
        return given

    def _groups(self, rank: int) -> dict[tuple[int, str], list[int]]:
        groups: dict[tuple[int, str], list[int]] = {}
        for place, (line, _) in enumerate(self.lines):
            if line.rank == rank:
                groups.setdefault((line.priority, line.turn()), []).append(place)
        return groups

    def _serve(self, members: Sequence[int], most: int) -> int:
        given = 0
        for place in members:
            line, waiting = self.lines[place]
            count = min(most - given, waiting - self.shares[place], self.rooms.room(line))
            if count > 0:
                self.rooms.take(line, count)
                self.shares[place] += count
                given += count
        return given


def share_out(
    lines: Sequence[WaitingLine],
    rooms: Rooms,
    credit: int,
    turns: Turns,
    weights: Mapping[str, int],
    *,
    most_lines: int = 1_000_000,
) -> list[int]:
    """How many jobs each of ``lines`` may send, ``credit`` in all; takes them from ``rooms``, and moves ``turns`` on.

    Within a rank ``lines`` come in the order of their turns, so many at most. ``weights``: jobs in a turn, by key;
    else 1.
    """
    sharing = _Sharing(lines, rooms, turns, weights, most_lines, [0] * len(lines))
    for rank in sorted({one.line.rank for one in lines}):
        if credit <= 0:
            break
        credit -= sharing.level(rank, credit)
    return sharing.shares


def _key(turn: str) -> str:
    """The key in the beginning of a line's text."""
    key: str = json.JSONDecoder().raw_decode(turn, 1)[0]
    return key
