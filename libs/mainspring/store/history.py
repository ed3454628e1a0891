"""The history as it is committed: attempts and events, each given once to everybody who follows it.

A place in the history is a snapshot of Postgres: which transactions it has seen. What comes after a place is what a
later snapshot sees and it doesn't, however long a transaction took to commit; a place by time or by a sequence would
pass over such a row. (``pg_current_snapshot`` and ``xid8``: PostgreSQL's manual, "Transaction ID and Snapshot
Information Functions".)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mainspring.domain.errors import InvalidInput
from mainspring.store.pool import Conn
from mainspring.store.sql import load

_SQL = load("history")
_TEXT = re.compile(r"(\d{1,19}):(\d{1,19}):((?:\d{1,19},)*\d{1,19})?")
#: Postgres has no more connections than this, so no snapshot is longer.
_LONGEST_TEXT = 262_143 * 20


@dataclass(frozen=True, slots=True)
class Place:
    """Which transactions have been seen: those below ``end``, but for the ``open`` ones."""

    end: int
    open: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> Place:
        """Read what ``str`` wrote. Raises InvalidInput naming ``Last-Event-ID``."""
        match = _TEXT.fullmatch(text) if len(text) < _LONGEST_TEXT else None
        if match is None:
            raise InvalidInput("Last-Event-ID", "is not the id of an event")
        return cls(int(match[2]), frozenset(int(one) for one in (match[3] or "").split(",") if one))

    def __str__(self) -> str:
        """As Postgres writes a snapshot: ``xmin:xmax:in-progress``."""
        return f"{min(self.open, default=self.end)}:{self.end}:{','.join(map(str, sorted(self.open)))}"

    def has_seen(self, xact: int) -> bool:
        """True when what this transaction wrote came before the place."""
        return xact < self.end and xact not in self.open

    def covers(self, other: Place) -> bool:
        """True when everything that ``other`` has seen was seen here."""
        return self.end >= other.end and all(one in other.open for one in self.open if one < other.end)

    def joined(self, other: Place) -> Place:
        """The place that has seen what either has."""
        unseen = {one for one in self.open | other.open if not self.has_seen(one) and not other.has_seen(one)}
        return Place(max(self.end, other.end), frozenset(unseen))

    def up_to(self, xact: int) -> Place:
        """The place that has seen this transaction, and of the later ones none."""
        return Place(xact + 1, frozenset(one for one in self.open if one <= xact))


@dataclass(frozen=True, slots=True)
class Page:
    """Rows in the order of their transactions, and the place after them. ``is_last``: nothing more is committed."""

    rows: Sequence[Any]
    place: Place
    is_last: bool = True


async def page(connection: Conn, since: Place | None, most: int) -> Page:
    """What was committed after ``since``: ``most`` rows, and the rest of the last one's transaction.

    Without ``since``: no rows, and the place behind everything that is committed. Raises InvalidInput for a place that
    this Postgres has not reached: it was restored to an earlier time.
    """
    if since is None:
        return Page((), Place.parse(await connection.fetchval(_SQL["place"])))
    rows = await connection.fetch(_SQL["page"], since.end, sorted(since.open), most)
    seen = Place.parse(rows[0]["place"])
    if since.end > seen.end:
        raise InvalidInput("Last-Event-ID", "is of a later time than this database's; begin without it")
    if rows[0]["xact"] is None or len(rows) < most:
        return Page([row for row in rows if row["xact"] is not None], seen)
    return Page(rows, _cut(seen, since, rows[-1]["xact"]), is_last=False)


def _cut(seen: Place, since: Place, last: int) -> Place:
    """The place behind a full page, which ends with transaction ``last``."""
    if last >= since.end:
        return seen.up_to(last)
    # The page ended among those that were open before: the later ones of them, and what is newer, are still to come.
    return Place(since.end, frozenset(one for one in since.open if one > last or one in seen.open))
