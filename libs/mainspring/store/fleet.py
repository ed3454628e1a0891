"""What the services tell each other through Postgres: tasks, workers, leadership, wake-ups."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg

from mainspring.store import circuits
from mainspring.store.pool import Conn
from mainspring.store.sql import load

_SQL = load("fleet")
#: A worker that hasn't beaten for this long is gone.
WORKER_LIFE = timedelta(seconds=15)


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker as it shows itself."""

    id: UUID
    host: str
    pid: int
    version: str
    queues: tuple[str, ...]
    tasks: tuple[str, ...]
    labels: tuple[str, ...]
    slots: int
    free_slots: int


async def upsert_tasks(connection: Conn, entries: Sequence[dict[str, Any]], version: str) -> None:
    """Write a worker's tasks into the catalogue, and make their circuits. In a transaction."""
    await connection.execute(
        _SQL["upsert_tasks"],
        [entry["name"] for entry in entries],
        [entry["queue"] for entry in entries],
        [entry["timeout_seconds"] for entry in entries],
        [json.dumps(entry["retry"]) for entry in entries],
        [json.dumps(entry["payload_schema"]) for entry in entries],
        [entry["circuit"] for entry in entries],
        [",".join(entry["requires"]) for entry in entries],
        version,
    )
    await circuits.register(connection, {entry["circuit"] for entry in entries if entry["circuit"]})


async def payload_schemas(connection: Conn) -> dict[str, dict[str, Any]]:
    """The payload schema of each known task."""
    return {row["name"]: json.loads(row["payload_schema"]) for row in await connection.fetch(_SQL["payload_schemas"])}


async def beat_worker(connection: Conn, worker: Worker) -> None:
    """Show that a worker lives, and its free slots."""
    await connection.execute(
        _SQL["beat_worker"],
        *(worker.id, worker.host, worker.pid, worker.version, worker.queues, worker.tasks, worker.labels),
        *(worker.slots, worker.free_slots),
    )


async def call_waiting(connection: Conn, tasks: Sequence[str], most: int = 2000) -> int:
    """Make jobs due that wait for a worker that knows one of these tasks; returns how many, ``most`` at a time."""
    done = await connection.execute(_SQL["call_waiting"], tasks, most)
    return int(done.split()[-1])


async def forget_worker(connection: Conn, worker_id: UUID) -> None:
    """Take a worker off the list."""
    await connection.execute(_SQL["forget_worker"], worker_id)


async def forget_lost_workers(connection: Conn, silent_for: timedelta) -> None:
    """Take workers off the list that have been silent for so long."""
    await connection.execute(_SQL["forget_lost_workers"], silent_for)


async def workers(connection: Conn) -> list[Any]:
    """The workers that live."""
    return list(await connection.fetch(_SQL["workers"], WORKER_LIFE))


async def slots(connection: Conn) -> dict[str, int]:
    """The slots of the workers that live, by queue."""
    return {row["queue"]: row["slots"] for row in await connection.fetch(_SQL["slots"], WORKER_LIFE)}


async def take_leadership(connection: Conn, duty: str, holder: UUID, ttl: timedelta) -> int | None:
    """Take or renew the lease of a duty; its term, or None while somebody else holds it."""
    try:
        term: int | None = await connection.fetchval(_SQL["take_leadership"], duty, holder, ttl)
    except asyncpg.UniqueViolationError:
        # Two processes take a duty that nobody ever had: the other one was first.
        return None
    return term


async def hold_leadership(connection: Conn, duty: str, holder: UUID, term: int) -> bool:
    """First statement of a duty's transaction: True when the term is still ours, which it stays until the commit."""
    return bool(await connection.fetchval(_SQL["hold_leadership"], duty, holder, term))


async def give_up_leadership(connection: Conn, duty: str, holder: UUID) -> None:
    """Let another take over at once."""
    await connection.execute(_SQL["give_up_leadership"], duty, holder)


async def notify(connection: Conn, channel: str, text: str = "") -> None:
    """Wake whoever listens. ``text`` is a hint at most; everything works without it, a little later."""
    await connection.execute(_SQL["notify"], channel, text)


async def now(connection: Conn) -> datetime:
    """Postgres's clock."""
    instant: datetime = await connection.fetchval(_SQL["now"])
    return instant
