"""Daily partitions, made ahead: history goes by dropping one, and no insert ever waits for one to be made.

``job_details`` is cut by id, whose first bits are the time of its making; the others by the instant they end.
A row outside every partition (a client's clock far off) lands in the default one and is as good.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from mainspring.domain.ids import first_id_at
from mainspring.store.pool import Conn

DAYS_AHEAD = 7
BY_INSTANT = ("finished_jobs", "attempts", "events")


async def ensure(connection: Conn, days_ahead: int = DAYS_AHEAD) -> int:
    """Make the partitions from today (Postgres's clock, UTC) on; return how many were missing."""
    today: date = await connection.fetchval("SELECT (clock_timestamp() AT TIME ZONE 'UTC')::date")
    existing = {
        row["relname"]
        for row in await connection.fetch(
            "SELECT relname FROM pg_class WHERE relnamespace = 'mainspring'::regnamespace AND relispartition"
        )
    }
    wanted = [
        (table, day)
        for day in (today + timedelta(days=ahead) for ahead in range(days_ahead + 1))
        for table in ("job_details", *BY_INSTANT)
    ]
    missing = [one for one in wanted if name_of(*one) not in existing]
    for table, day in missing:
        await make(connection, table, day)
    return len(missing)


def name_of(table: str, day: date) -> str:
    """The partition of a day."""
    return f"{table}_{day:%Y%m%d}"


async def make(connection: Conn, table: str, day: date) -> None:
    """Make a day's partition of a table if it isn't there."""
    first, last = _bounds(table, day), _bounds(table, day + timedelta(days=1))
    await connection.execute(
        f"CREATE TABLE IF NOT EXISTS mainspring.{name_of(table, day)} PARTITION OF mainspring.{table}"
        f" FOR VALUES FROM ('{first}') TO ('{last}')"
    )


def _bounds(table: str, day: date) -> str:
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    if table == "job_details":
        return str(first_id_at(int(start.timestamp() * 1000)))
    return start.isoformat()
