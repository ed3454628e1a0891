"""What there is to do for the scheduler's loops that wait for rows, and which of them that concerns."""

from __future__ import annotations

from datetime import timedelta

from mainspring.domain.zones import zone_data_version
from mainspring.store.pool import Conn
from mainspring.store.sql import load

_SQL = load("agenda")


async def look(
    connection: Conn, *, ahead: timedelta, unpublished_for: timedelta, retry_overdue: timedelta, queues: int
) -> set[str]:
    """The names of the loops that have something to do now.

    ``ahead``: what is planned for an instant counts so long before. ``unpublished_for``, ``retry_overdue``: from what
    age on an outbox row and a retry without a message count. ``queues``: how many are known already.
    """
    [row] = await connection.fetch(_SQL["look"], ahead, unpublished_for, retry_overdue, queues, zone_data_version())
    return {name for name, has_something in row.items() if has_something}
