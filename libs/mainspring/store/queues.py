"""Queues and their settings."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from mainspring.domain.errors import InvalidInput
from mainspring.store.fleet import WORKER_LIFE
from mainspring.store.pool import Conn
from mainspring.store.sql import load

_SQL = load("queues")


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue and its settings. ``default_retry``, ``fair_weights`` and ``retention`` are JSON text."""

    name: str
    paused: bool
    note: str | None
    paused_at: datetime | None
    paused_by: str | None
    release_window: int
    backs_off_until: datetime
    concurrency: int | None
    fair_by: str | None
    fair_weights: str
    default_priority: int | None
    default_timeout_seconds: float | None
    default_retry: str | None
    default_expiry_seconds: float | None
    aging_seconds: float | None
    most_waiting: int | None
    retention: str | None


class DispatchedQueue(NamedTuple):
    """What a dispatcher goes by. ``largest``: the slots of the queue's largest living worker, None without one."""

    name: str
    paused: bool
    largest: int | None
    may_be_limited: bool


async def make_queues(connection: Conn, names: Sequence[str]) -> None:
    """Make these queues if they aren't there. Raises InvalidInput when there would be more than 500."""
    await connection.execute(_SQL["make_queues"], list(names))
    if await connection.fetchval(_SQL["known_queues"], list(names)) < len(set(names)):
        raise InvalidInput("queue", "at most 500 queues")


async def adopt_queues(connection: Conn) -> None:
    """Make the queues that submits have used first."""
    await connection.execute(_SQL["adopt_queues"])


async def names(connection: Conn) -> dict[str, bool]:
    """The names of all queues, those that were only used yet with False."""
    return {row["name"]: row["is_made"] for row in await connection.fetch(_SQL["names"])}


async def all_queues(connection: Conn) -> list[Queue]:
    """All queues by name."""
    return [Queue(**dict(row)) for row in await connection.fetch(_SQL["all"])]


async def dispatched(connection: Conn) -> list[DispatchedQueue]:
    """All queues, as a dispatcher sees them."""
    return [DispatchedQueue(*row) for row in await connection.fetch(_SQL["dispatched"], WORKER_LIFE)]


async def pause(connection: Conn, name: str, note: str | None = None, author: str | None = None) -> bool:
    """Pause; False when there is no such queue. One that is paused already keeps its beginning."""
    return bool(await connection.fetchrow(_SQL["pause"], name, note, author))


async def resume(connection: Conn, name: str) -> bool:
    """Resume; False when there is no such queue."""
    return bool(await connection.fetchrow(_SQL["resume"], name))


async def change(connection: Conn, name: str, settings: Mapping[str, Any]) -> bool:
    """Set what ``settings`` names, by the fields of Queue, in JSON values; False when there is no such queue."""
    return bool(await connection.fetchrow(_SQL["change"], name, json.dumps(settings)))


async def set_concurrency(connection: Conn, name: str, most: int | None) -> None:
    """Limit how many jobs of a queue hold a slot at once, over all workers; None lifts the limit."""
    await make_queues(connection, [name])
    if most is None:
        await connection.execute(_SQL["drop_concurrency"], name)
    else:
        await connection.execute(_SQL["set_concurrency"], name, most)
