"""Copies of a database, and what lies in its tables: for trials that each begin with the same state."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from mainspring.store.pool import connect

_TABLES = """
SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables
WHERE schemaname NOT IN ('pg_catalog', 'information_schema', 'mainspring') ORDER BY 1
"""


@asynccontextmanager
async def copied(url: str | None) -> AsyncIterator[str | None]:
    """A copy of the database as long as the block lasts; nothing for None. Raises DatabaseUnavailable."""
    if url is None:
        yield None
        return
    original = urlsplit(url).path.lstrip("/")
    name = f"{original[:40]}_{secrets.token_hex(6)}"
    # Nobody may be connected to what is copied, this included.
    maintenance = urlsplit(url)._replace(path="/postgres" if original != "postgres" else "/template1").geturl()
    connection = await connect(maintenance, "copies")
    try:
        await connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{original}" STRATEGY FILE_COPY')
        try:
            yield urlsplit(url)._replace(path=f"/{name}").geturl()
        finally:
            await connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
    finally:
        await connection.close()


async def rows_of(url: str | None) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table of the database's users, as JSON values, by table."""
    if url is None:
        return {}
    connection = await connect(url, "copies")
    try:
        tables = [row["name"] for row in await connection.fetch(_TABLES)]
        return {
            table: [
                json.loads(row["text"])
                for row in await connection.fetch(f"SELECT to_jsonb(one)::text AS text FROM {table} AS one")  # noqa: S608  quoted by Postgres
            ]
            for table in tables
        }
    finally:
        await connection.close()
