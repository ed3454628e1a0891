"""Calendars: the days that schedules leave out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from mainspring.domain.calendar import Calendar
from mainspring.store.pool import Conn
from mainspring.store.sql import load

_SQL = load("calendars")


class StoredCalendar(NamedTuple):
    """A calendar's row."""

    name: str
    days: list[str]
    note: str | None
    updated_at: datetime


async def save(connection: Conn, one: Calendar) -> None:
    """Create or replace a calendar."""
    await connection.execute(_SQL["save"], one.name, list(one.days), one.note)


async def get(connection: Conn, name: str) -> StoredCalendar | None:
    """The calendar, or None."""
    row = await connection.fetchrow(_SQL["get"], name)
    return StoredCalendar(*row) if row else None


async def list_after(connection: Conn, name: str, most: int) -> list[StoredCalendar]:
    """A page of calendars by name."""
    return [StoredCalendar(*row) for row in await connection.fetch(_SQL["list"], name, most)]


async def make(connection: Conn, name: str) -> None:
    """Make a calendar without days, where there is none."""
    await connection.execute(_SQL["make"], name)


async def lock(connection: Conn, name: str) -> list[str] | None:
    """Its days, and keep others from naming it until the transaction ends; None when there is none."""
    row = await connection.fetchrow(_SQL["lock"], name)
    return row["days"] if row else None


async def hold(connection: Conn, names: Sequence[str]) -> dict[str, list[str]]:
    """The days of these calendars, which nobody changes until the transaction ends; those that exist."""
    return {row["name"]: row["days"] for row in await connection.fetch(_SQL["hold"], list(names))}


async def delete(connection: Conn, name: str) -> None:
    """Delete a calendar that no schedule names."""
    await connection.execute(_SQL["delete"], name)
