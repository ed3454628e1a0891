"""Bulk operations as they are stored, and what they are done to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from mainspring.domain.bulk import Action, BulkFilter, BulkOperation, BulkRequest, Canary, Progress, Reached
from mainspring.domain.ids import first_id_at
from mainspring.domain.states import State
from mainspring.store.pool import Conn
from mainspring.store.sql import load

_SQL = load("bulk")
NONE = UUID(int=0)


async def matching(connection: Conn, one: BulkOperation, most: int) -> list[Reached]:
    """The next jobs, or dead letters, that pass the filter and were there when it began, in their order."""
    name, arguments = _selection(one.request, one.created_at, one.reached, most)
    return [Reached(row["id"], row["died_at"]) for row in await connection.fetch(_SQL[name], *arguments)]


async def count(connection: Conn, request: BulkRequest, before: datetime) -> dict[str, int]:
    """How many pass the filter, by state; dead letters by kind."""
    name, arguments = _selection(request, before, Reached(NONE), None)
    counted = f"SELECT state, count(*) AS jobs FROM ({_SQL[name]}) AS found GROUP BY state ORDER BY state"  # noqa: S608
    return {row["state"]: row["jobs"] for row in await connection.fetch(counted, *arguments)}


def _selection(
    request: BulkRequest, before: datetime, reached: Reached, most: int | None
) -> tuple[str, tuple[Any, ...]]:
    asked = request.filter
    until = min(asked.until, before) if asked.until else before
    if request.action.is_on_dead_letters:
        with_messages = request.action is Action.DISCARD
        names = (asked.queue, asked.task, asked.reason, asked.fingerprint)
        return "dead", (with_messages, asked.since, until, *names, reached.died_at, reached.id, most)
    since = _id_at(asked.since) if asked.since else NONE
    states = asked.states or tuple(sorted(request.action.states))
    names = (asked.queue, asked.task, asked.schedule, asked.tag)
    return "live", (reached.id, since, _id_at(until), states, *names, most)


def _id_at(instant: datetime) -> UUID:
    return first_id_at(int(instant.timestamp() * 1000))


async def lock_letters(connection: Conn, ids: Sequence[UUID]) -> None:
    """Lock dead letters until the transaction's end: before the jobs behind them."""
    await connection.fetch(_SQL["lock_letters"], ids)


async def start(
    connection: Conn, id_: UUID, request: BulkRequest, author: str, at: datetime, matched: int
) -> BulkOperation:
    """Write an operation down; schedulers do it."""
    canary = request.canary
    row = await connection.fetchrow(
        _SQL["start"],
        *(id_, request.action, json.dumps(_filter_json(request.filter)), request.priority, request.per_second),
        *(canary.steps if canary else (), canary.most_failures if canary else None, request.note, author, at, matched),
    )
    return _operation(row)


async def running(connection: Conn) -> int:
    """How many operations run."""
    return int(await connection.fetchval(_SQL["running"]))


async def newest(connection: Conn, most: int) -> list[BulkOperation]:
    """Operations, the latest first."""
    return [_operation(row) for row in await connection.fetch(_SQL["newest"], most)]


async def get(connection: Conn, id_: UUID) -> BulkOperation | None:
    """One operation, or None."""
    row = await connection.fetchrow(_SQL["get"], id_)
    return _operation(row) if row else None


async def take(connection: Conn, after: UUID) -> BulkOperation | None:
    """The next running operation by id whose next part is due, locked; None when there is none."""
    row = await connection.fetchrow(_SQL["take"], after)
    return _operation(row) if row else None


async def judge(connection: Conn, one: BulkOperation) -> Progress:
    """The progress of a canary with what has become of its jobs since the last look."""
    [row] = await connection.fetch(_SQL["judge"], one.id, one.created_at)
    was = one.progress
    return Progress(
        was.matched,
        was.taken,
        was.step,
        was.succeeded + row["succeeded"],
        was.failed + row["failed"],
        was.pending - row["judged"],
    )


async def watch(connection: Conn, id_: UUID, job_ids: Sequence[UUID]) -> None:
    """From now on ``judge`` looks at these jobs, which were just put back to work."""
    await connection.execute(_SQL["watch"], id_, job_ids)


async def go_on(
    connection: Conn, one: BulkOperation, now: Progress, reached: Reached, missed: int, wait: float
) -> None:
    """Move an operation on to ``now``; its next part is due in ``wait`` seconds."""
    was = one.progress
    await connection.execute(
        _SQL["go_on"],
        *(one.id, now.taken - was.taken, missed, now.step, now.succeeded - was.succeeded, now.failed - was.failed),
        *(*reached, wait),
    )


async def finish(connection: Conn, id_: UUID, state: str, reason: str | None = None) -> bool:
    """End an operation; False when it doesn't run."""
    return bool(await connection.fetchrow(_SQL["finish"], id_, state, reason))


async def next_in(connection: Conn) -> float | None:
    """The seconds until a running operation is due; None when none runs."""
    seconds: float | None = await connection.fetchval(_SQL["next_in"])
    return seconds


def _filter_json(asked: BulkFilter) -> dict[str, Any]:
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in asked.given().items()}


def _filter(text: str) -> BulkFilter:
    given = json.loads(text)
    instants = {name: datetime.fromisoformat(given[name]) for name in ("since", "until") if name in given}
    states = tuple(State(one) for one in given.get("states", ()))
    return BulkFilter(**given | instants | {"states": states})


def _operation(row: Any) -> BulkOperation:
    asked = _filter(row["filter"])
    request = BulkRequest(
        Action(row["action"]),
        asked,
        is_for_all=not asked.given(),
        priority=row["priority"],
        per_second=row["per_second"],
        canary=Canary(tuple(row["canary"]), row["most_failures"]) if row["canary"] else None,
        note=row["note"],
    )
    progress = Progress(row["matched"], row["taken"], row["step"], row["succeeded"], row["failed"], row["pending"])
    reached = Reached(row["reached"], row["reached_at"])
    ends = row["state"], row["reason"], progress, row["missed"], reached, row["created_at"], row["finished_at"]
    return BulkOperation(row["id"], request, row["author"], *ends)
