"""Retention as it is stored, and the statements by which what is over goes.

A partition is dropped under a lock that is asked for a tenth of a second at a time: whoever reads for longer is waited
for until another pass, and nobody queues up behind.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import astuple
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple
from uuid import UUID

import asyncpg

from mainspring.domain.ids import first_id_at
from mainspring.domain.retention import Cutoff, Day, QueueRetention, Retention
from mainspring.store.pool import Conn
from mainspring.store.sql import columns, load

_SQL = load("retention")
NONE = UUID(int=0)
_DAY = re.compile(r"(?P<table>[a-z_]+)_(?P<day>\d{8})")
_LOCK_TIMEOUT = "100ms"
#: A day of payloads stays whole while more of its jobs than this are there.
MOST_SURVIVORS = 5000
KeyTable = Literal["completions", "idempotency_keys", "unique_jobs"]
_FORGET: dict[KeyTable, str] = {
    "completions": _SQL["forget_completions"],
    "idempotency_keys": _SQL["forget_idempotency_keys"],
    "unique_jobs": _SQL["forget_unique_jobs"],
}


async def get(connection: Conn) -> Retention:
    """What holds for all queues."""
    [row] = await connection.fetch(_SQL["get"])
    return Retention(*row)


async def save(connection: Conn, retention: Retention) -> None:
    """Keep from now on for so long."""
    await connection.execute(_SQL["save"], *astuple(retention))


async def of_queues(connection: Conn) -> dict[str, QueueRetention]:
    """What queues keep otherwise."""
    rows = await connection.fetch(_SQL["of_queues"])
    return {row["name"]: QueueRetention(**json.loads(row["retention"])) for row in rows}


async def last_cutoff(connection: Conn, queue: str, last: int) -> datetime | None:
    """When the oldest ended of the last so many jobs of a queue; None when there are fewer."""
    found: datetime | None = await connection.fetchval(_SQL["last_cutoff"], queue, last)
    return found


async def days(connection: Conn) -> list[Day]:
    """All partitions of days, the oldest first."""
    found = []
    for row in await connection.fetch(_SQL["days"]):
        match = _DAY.fullmatch(row["name"])
        if match and match["table"] == row["table_name"]:
            begins = datetime.strptime(match["day"], "%Y%m%d").replace(tzinfo=UTC)
            found.append(Day(row["table_name"], row["name"], begins, begins + timedelta(days=1)))
    return sorted(found, key=lambda day: day.begins)


async def drop(connection: Conn, day: Day) -> bool:
    """Drop a partition, in a transaction of its own; False when it is in use."""
    try:
        await connection.execute(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'")
        await connection.execute(f"DROP TABLE IF EXISTS mainspring.{day.name}")
    except asyncpg.LockNotAvailableError:
        return False
    return True


async def drop_details(connection: Conn, day: Day) -> bool:
    """``drop`` for payloads, but for those of jobs that are still there; False, too, when these are many."""
    bounds = [first_id_at(int(instant.timestamp() * 1000)) for instant in (day.begins, day.ends)]
    if len(await connection.fetch(_SQL["survivors"], *bounds, MOST_SURVIVORS + 1)) > MOST_SURVIVORS:
        return False
    try:
        await connection.execute(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'")
        await connection.execute(f"ALTER TABLE mainspring.job_details DETACH PARTITION mainspring.{day.name}")
    except asyncpg.LockNotAvailableError:
        return False
    # Under the lock, and all of them: nobody makes one anew. What is kept goes to the default partition.
    kept = [row["id"] for row in await connection.fetch(_SQL["survivors"], *bounds, None)]
    await connection.execute(
        f"INSERT INTO mainspring.job_details SELECT * FROM mainspring.{day.name} WHERE id = ANY ($1)",  # noqa: S608
        kept,
    )
    await connection.execute(f"DROP TABLE mainspring.{day.name}")
    return True


class Swept(NamedTuple):
    """What a part of a sweep did: the last job that it looked at (None: none was left), and counts."""

    reached: UUID | None
    looked: int
    gone: int
    cleared: int


async def sweep(connection: Conn, day: Day, cutoffs: Sequence[Cutoff], after: UUID, most: int) -> Swept:
    """Look at the next jobs of a day behind an id; those that are over go."""
    [row] = await connection.fetch(_SQL["sweep"], day.begins, day.ends, after, most, *columns(cutoffs))
    return Swept(*row)


async def sweep_kept_details(connection: Conn, after: UUID, most: int) -> UUID | None:
    """Look at the next payloads that have outlived their partition; those without a job go. None: none was left."""
    [row] = await connection.fetch(_SQL["sweep_kept_details"], after, most)
    return row["reached"] if row["looked"] == most else None


async def blocks(connection: Conn, table: KeyTable) -> int:
    """How many blocks a table of keys has."""
    [row] = await connection.fetch(_SQL["blocks"])
    return int(row[table])


async def forget_keys(connection: Conn, table: KeyTable, first: int, end: int, before: datetime) -> int:
    """Forget the keys in the blocks [first, end) that are older; returns how many."""
    done = await connection.execute(_FORGET[table], first, end, before)
    return int(done.split()[-1])
