"""By which zone data the next nominal times were computed: that of the leading scheduler, one for the whole fleet."""

from __future__ import annotations

from mainspring.domain.zones import zone_data_version
from mainspring.store.pool import Conn
from mainspring.store.sql import load

_SQL = load("zone_data")


async def release(connection: Conn) -> str | None:
    """The release that the fleet computes with; None before any scheduler led."""
    found: str | None = await connection.fetchval(_SQL["get"])
    return found


async def set_release(connection: Conn) -> None:
    """The fleet computes with this process's zone data from now on."""
    await connection.execute(_SQL["set"], zone_data_version())
