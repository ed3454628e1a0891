"""What a person asks of the Postgres server itself."""

from __future__ import annotations

from typing import Any

from mainspring.store.pool import Conn
from mainspring.store.sql import load

_SQL = load("server")


async def facts(connection: Conn) -> Any:
    """Its version, and whether it takes writes."""
    return await connection.fetchrow(_SQL["facts"])


async def watch(connection: Conn) -> Any:
    """Its clock, whether it takes writes, and the fleet's release of the zone data (None before any scheduler led)."""
    return await connection.fetchrow(_SQL["watch"])


async def has_leader(connection: Conn) -> bool:
    """Whether some scheduler holds the leader's lease: at least one lives."""
    return bool(await connection.fetchval(_SQL["has_leader"]))


async def leader(connection: Conn) -> Any:
    """Who leads, by which term, since when; None when nobody does."""
    return await connection.fetchrow(_SQL["leader"])


async def horizon(connection: Conn) -> float:
    """For how many seconds the oldest open transaction has kept dead rows from being removed."""
    seconds: float = await connection.fetchval(_SQL["horizon"])
    return seconds
