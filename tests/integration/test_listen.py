"""LISTEN: who is refused tries again."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

from mainspring.store.pool import Database
from mainspring.store.wakeups import DUE_CHANNEL, listen

ROLE = "listener"


async def test_a_role_that_may_not_log_in_for_a_while_hears_again_afterwards(
    database: Database, database_url: str
) -> None:
    parts = urlsplit(database_url)
    url = parts._replace(netloc=f"{ROLE}@{parts.netloc.rpartition('@')[2]}").geturl()
    said: asyncio.Queue[str] = asyncio.Queue()
    async with database.connection() as connection:
        await connection.execute(f"CREATE ROLE {ROLE} LOGIN")
        listening = asyncio.create_task(listen(url, "test", {DUE_CHANNEL: said.put_nowait}))
        try:
            assert await asyncio.wait_for(said.get(), 10) == ""
            await connection.execute(f"ALTER ROLE {ROLE} NOLOGIN")
            await connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1", ROLE)
            # Refused, at once and again.
            done, _ = await asyncio.wait([listening], timeout=2)
            assert not done
            await connection.execute(f"ALTER ROLE {ROLE} LOGIN")
            assert await asyncio.wait_for(said.get(), 20) == ""
            await connection.execute("SELECT pg_notify($1, 'q')", DUE_CHANNEL)
            assert await asyncio.wait_for(said.get(), 10) == "q"
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
            await connection.execute(f"DROP ROLE {ROLE}")
