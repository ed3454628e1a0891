"""A clock of our own for a test's database: Postgres tells the time that the test sets.

Our SQL calls ``clock_timestamp()`` without a schema. Here a function of that name is found before Postgres's own, and
the defaults of our columns, which were bound to Postgres's own, are bound to it. As with a real clock no two calls see
the same instant: each comes a microsecond after the last.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from urllib.parse import urlsplit

import asyncpg

_FUNCTION = """
CREATE SCHEMA virtual;
CREATE TABLE virtual.clock (is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only), instant timestamptz NOT NULL);
INSERT INTO virtual.clock (instant) VALUES ('2000-01-01T00:00:00Z');
CREATE SEQUENCE virtual.calls;
CREATE FUNCTION virtual.clock_timestamp() RETURNS timestamptz LANGUAGE sql SET search_path = pg_catalog
AS $$ SELECT instant + nextval('virtual.calls') * interval '1 microsecond' FROM virtual.clock $$;
"""
_DEFAULTS = """
SELECT format('ALTER TABLE %I.%I ALTER %I SET DEFAULT virtual.clock_timestamp()', table_schema, table_name, column_name)
FROM information_schema.columns WHERE table_schema = 'mainspring' AND column_default = 'clock_timestamp()'
"""


class VirtualClock:
    """The clock of one database."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection
        self.now = datetime(2000, 1, 1, tzinfo=UTC)

    async def set(self, instant: datetime) -> None:
        """It is ``instant`` now."""
        self.now = instant
        await self._connection.execute("SELECT setval('virtual.calls', 1)")
        await self._connection.execute("UPDATE virtual.clock SET instant = $1", instant)

    async def install(self, database: str) -> None:
        """Put it into a database; sessions that are opened from now on go by it."""
        await self._connection.execute(_FUNCTION)
        for row in await self._connection.fetch(_DEFAULTS):
            await self._connection.execute(row[0])
        await self._connection.execute(f"ALTER DATABASE {database} SET search_path = virtual, pg_catalog, public")


@asynccontextmanager
async def virtual_clock(database_url: str) -> AsyncIterator[VirtualClock]:
    """A clock for the database at ``database_url``, which no session uses yet."""
    connection = await asyncpg.connect(database_url)
    try:
        clock = VirtualClock(connection)
        await clock.install(urlsplit(database_url).path.removeprefix("/"))
        yield clock
    finally:
        await connection.close()
