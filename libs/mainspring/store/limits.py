"""Limits as they are stored, and what they have left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from mainspring.domain.limits import InHand, Kind, Limit, Line, RateRoom, Rooms, Strategy
from mainspring.store import queues
from mainspring.store.pool import Conn
from mainspring.store.sql import load

_SQL = load("limits")


async def named(connection: Conn) -> list[Limit]:
    """Limits by name, but for those that belong to a queue or a circuit."""
    return [_limit(row) for row in await connection.fetch(_SQL["named"])]


async def of_queue(connection: Conn, queue: str) -> list[Limit]:
    """The limits that jobs of a queue can be under."""
    return [_limit(row) for row in await connection.fetch(_SQL["of_queue"], queue)]


async def lock_concurrency(connection: Conn, queue: str, tasks: Collection[str]) -> list[Limit]:
    """The concurrency limits on a queue and on tasks, locked until the transaction's end."""
    return [_limit(row) for row in await connection.fetch(_SQL["lock_concurrency"], queue, sorted(tasks))]


async def save(connection: Conn, limit: Limit) -> None:
    """Make a limit, or change the one of its name. Its queues are made if they aren't there."""
    if limit.queues:
        await queues.make_queues(connection, limit.queues)
    await connection.execute(
        _SQL["save"],
        *(limit.name, limit.kind, limit.most, limit.queues, limit.tasks),
        *(limit.per, limit.period_seconds, limit.burst, limit.cost, limit.note, limit.strategy, limit.ordered),
    )


async def delete(connection: Conn, name: str) -> bool:
    """Lift a limit; False when there is none of that name."""
    return bool(await connection.fetchrow(_SQL["delete"], name))


async def in_hand(connection: Conn, limits: Iterable[Limit], *, released_too: bool) -> list[InHand]:
    """The jobs under these limits that hold a slot (or are released), counted by what tells them apart."""
    ids = [limit.id for limit in limits]
    return [InHand(*row) for row in await connection.fetch(_SQL["in_hand"], ids, released_too)] if ids else []


async def rooms(connection: Conn, limits: Sequence[Limit], lines: Iterable[Line]) -> Rooms:
    """What the limits have left for ``lines``, what is released counted in."""
    found = Rooms(tuple(limits))
    found.count(await in_hand(connection, limits, released_too=True), released_too=True)
    buckets = sorted(
        {(limit.id, key) for line in lines for limit, key, _ in found.needs(line) if limit.kind is Kind.RATE}
    )
    if buckets:
        ids, keys = zip(*buckets, strict=True)
        rows = await connection.fetch(_SQL["rate_rooms"], ids, keys)
        found.rates = {
            (row["id"], row["key"]): RateRoom(
                row["room"], row["free_in"].total_seconds(), row["next_in"].total_seconds()
            )
            for row in rows
        }
    return found


class KeyUse(NamedTuple):
    """How much of a limit a key uses: jobs that hold a slot, jobs on their way, and what is left."""

    key: str
    held: int
    released: int
    left: int


async def keys_in_use(connection: Conn, limit: Limit, most: int = 100) -> list[KeyUse]:
    """The keys that use a limit, those first that have the least left."""
    held: Counter[str] = Counter()
    released: Counter[str] = Counter()
    counting = Rooms((limit,))
    for one in await in_hand(connection, [limit], released_too=True):
        for _, key, _ in counting.needs(Line(one.line, one.queue, one.task)):
            (released if one.state == "enqueued" else held)[key] += one.jobs
    if limit.kind is Kind.RATE:
        lefts = {row["key"]: row["room"] for row in await connection.fetch(_SQL["rates_in_use"], limit.id, most)}
    else:
        lefts = {key: max(limit.most - count, 0) for key, count in held.items()}
    full = limit.burst if limit.kind is Kind.RATE else limit.most
    uses = [KeyUse(key, held[key], released[key], lefts.get(key, full or 0)) for key in {*lefts, *held, *released}]
    return sorted(uses, key=lambda use: (use.left, use.key))[:most]


async def forget_rates(connection: Conn) -> None:
    """Drop what rates have given out so long ago that it makes no difference."""
    await connection.execute(_SQL["forget_rates"])


def _limit(row: Any) -> Limit:
    fields = dict(row) | {"queues": tuple(row["queues"]), "tasks": tuple(row["tasks"])}
    del fields["is_queues_own"]
    return Limit(**fields | {"kind": Kind(row["kind"]), "strategy": Strategy(row["strategy"])})
