"""One reader of the history for all who follow it: each pass reads what is new once, whoever is at that place takes it.

A follower that is elsewhere (it has just come, or takes its pages slowly) reads a page of its own, and is at the common
place then. So many followers cost one query each half second, and a slow one keeps nothing in memory.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace

from mainspring.domain.errors import InvalidInput
from mainspring.runtime.loop import Pass
from mainspring.store import history
from mainspring.store.history import Page, Place
from mainspring.store.pool import Database

FEED_SECONDS = 0.5
#: Rows of a page; a transaction that wrote more comes whole.
PAGE_ROWS = 1000
#: How long a follower waits for a pass before it looks by itself.
PATIENCE_SECONDS = 5.0


class EventFeed:
    """Reads only while somebody follows."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._followers = 0
        self._since: Place | None = None
        self._latest: Page | None = None
        self._passed = asyncio.Event()
        self._is_over = False

    async def run_once(self) -> Pass:
        """Read what is new, and wake the followers."""
        if not self._followers:
            self._latest = None
            return Pass()
        since = self._latest.place if self._latest else None
        try:
            page = await self._page(since)
        except InvalidInput:
            # This Postgres was restored to an earlier time: begin anew. Whoever follows is told so by its own page.
            self._latest = None
            self._wake()
            return Pass(again=True)
        self._since, self._latest = since, page
        self._wake()
        return Pass(len(page.rows), again=not page.is_last)

    async def follow(self, since: Place | None) -> AsyncIterator[Page]:
        """Pages of what was committed after ``since`` (None: after now), also empty ones, until the feed ends.

        The first page comes at once. Raises InvalidInput when ``since`` is of a later time than the database.
        """
        self._followers += 1
        try:
            page = await self._page(since)
            while not self._is_over:
                yield page
                # A common page that was seen already is empty, also when it isn't the last: the next pass brings more.
                if page.is_last or not page.rows:
                    await self._wait()
                page = self._common(page.place) or await self._page(page.place)
        finally:
            self._followers -= 1

    async def _wait(self) -> None:
        """Until the next pass; while Postgres is away there is none, and a look of one's own says so."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self._passed.wait()

    def _common(self, place: Place) -> Page | None:
        """The latest page without what was seen at ``place``; None when it begins behind it."""
        if self._latest is None or self._since is None or not place.covers(self._since):
            return None
        rows = [row for row in self._latest.rows if not place.has_seen(row["xact"])]
        return replace(self._latest, rows=rows, place=place.joined(self._latest.place))

    async def _page(self, since: Place | None) -> Page:
        return await self._database.run(lambda connection: history.page(connection, since, PAGE_ROWS))

    def end(self) -> None:
        """Send all followers away: the service stops."""
        self._is_over = True
        self._wake()

    def _wake(self) -> None:
        passed, self._passed = self._passed, asyncio.Event()
        passed.set()
