"""Making jobs, and what people do to one of them: edit, cancel, redrive."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg

from mainspring.domain.errors import Conflict, InvalidInput, QueueFull
from mainspring.domain.ids import RisingIds
from mainspring.domain.job import JobRequest
from mainspring.domain.retry import DEFAULT
from mainspring.domain.states import WAITING, State
from mainspring.store import fleet
from mainspring.store.pool import Conn
from mainspring.store.sql import columns, load
from mainspring.store.wakeups import CANCEL_CHANNEL

_SQL = load("jobs")
#: Between the tags of one job, in a parameter that holds those of many.
TAG_SEPARATOR = "\x1f"
#: Raised by ``mainspring.refuse_full_queue``.
_QUEUE_FULL = "MS429"
#: No queue's credit is lent.
NOBODY: Mapping[str, str] = MappingProxyType({})
_ids = RisingIds()
_DEFAULT_RETRY = json.dumps(DEFAULT.as_json())


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job that was just made, with what the catalogue filled in."""

    id: UUID
    request: JobRequest
    queue: str
    priority: int
    due_at: datetime
    created_at: datetime
    max_attempts: int
    timeout_seconds: float
    #: With the credit that a scheduler lent: nothing is left to release.
    is_released: bool = False


class JobRow(NamedTuple):
    """A job as it is inserted, in the order of the statement's parameters; None: what the catalogue says."""

    id: UUID
    task: str
    payload: str
    queue: str | None
    priority: int | None
    run_at: datetime | None = None
    delay: timedelta | None = None
    timeout_seconds: float | None = None
    #: As JSON text.
    retry: str | None = None
    idempotency_key: str | None = None
    #: Joined by TAG_SEPARATOR.
    tags: str = ""
    expires_at: datetime | None = None
    schedule: str | None = None
    nominal_at: datetime | None = None
    traceparent: str | None = None
    #: It is due, and the caller has seen to its release: ``release.store_batches``, in the same transaction.
    is_released: bool | None = None


class JobEdit(NamedTuple):
    """What is to change of a waiting job; None stays. ``payload`` is JSON text."""

    priority: int | None = None
    run_at: datetime | None = None
    payload: str | None = None


class ReservedKey(NamedTuple):
    """An idempotency key as it is stored."""

    job_id: UUID
    request_hash: bytes
    answer: str | None


def new_id() -> UUID:
    """An id for a new job, above those that this process made before. The clock in it orders storage alone."""
    return _ids.make(time.time_ns() // 1_000_000, secrets.randbits(74))


async def insert(
    connection: Conn,
    requests: Sequence[JobRequest],
    ids: Sequence[UUID] | None = None,
    *,
    wake: str | None = None,
    lenders: Mapping[str, str] = NOBODY,
) -> list[NewJob]:
    """Insert jobs in one statement and return them in the order of ``requests``.

    What a request leaves out is taken from the task's entry in the catalogue. A queue is made by its first use.
    ``wake``: a channel that is notified with the commit. ``lenders``: for each queue of which a scheduler has lent some
    credit, the channel on which it hears what it is to publish (``runtime.lent_credit``). Raises InvalidInput for the
    501st queue, QueueFull for a queue in which as many wait as may.
    """
    ids = ids or [new_id() for _ in requests]
    rows = [_row(id_, one) for id_, one in zip(ids, requests, strict=True)]
    made = await insert_rows(connection, rows, wake=wake, lenders=lenders)
    return [_new_job(made[id_], request) for id_, request in zip(ids, requests, strict=True)]


async def insert_rows(
    connection: Conn, rows: Sequence[JobRow], *, wake: str | None = None, lenders: Mapping[str, str] = NOBODY
) -> dict[UUID, Any]:
    """``insert`` for jobs whose contents were checked before; what was filled in, by id."""
    options = _DEFAULT_RETRY, wake, list(lenders), list(lenders.values())
    try:
        made = await connection.fetch(_SQL["insert"], *columns(rows), *options)
    except asyncpg.CheckViolationError as error:
        if error.constraint_name == "queues_most":
            raise InvalidInput("queue", "at most 500 queues; this would be one more") from None
        raise
    except asyncpg.PostgresError as error:
        if error.sqlstate == _QUEUE_FULL:
            raise QueueFull(f"{error}: {error.detail}") from None
        raise
    return {row["id"]: row for row in made}


def _row(id_: UUID, one: JobRequest) -> JobRow:
    return JobRow(
        id_,
        one.task,
        one.payload,
        one.queue,
        one.priority,
        one.run_at,
        one.delay,
        one.timeout.total_seconds() if one.timeout else None,
        json.dumps(one.retry.as_json()) if one.retry else None,
        one.idempotency_key,
        TAG_SEPARATOR.join(one.tags),
        one.expires_at,
        one.schedule,
        one.nominal_at,
        one.traceparent,
    )


def _new_job(row: Any, request: JobRequest) -> NewJob:
    return NewJob(
        row["id"],
        request,
        row["queue"],
        row["priority"],
        row["due_at"],
        row["created_at"],
        row["max_attempts"],
        row["timeout_seconds"],
        row["is_released"],
    )


async def reserve_keys(connection: Conn, keys: Sequence[tuple[str, UUID, bytes]]) -> set[str]:
    """Reserve idempotency keys (key, job id, request hash), sorted by key; return those that were free.

    Waits for another transaction that is reserving one of them, for at most its lock_timeout; then raises Conflict.
    """
    names, ids, hashes = zip(*sorted(keys), strict=True)
    try:
        return {row["key"] for row in await connection.fetch(_SQL["reserve_keys"], names, ids, hashes)}
    except asyncpg.LockNotAvailableError:
        raise Conflict("the idempotency key is in use by a request that has not ended; ask again") from None


async def read_keys(connection: Conn, keys: Sequence[str]) -> dict[str, ReservedKey]:
    """What is stored for ``keys``. Call it in a statement after ``reserve_keys``."""
    rows = await connection.fetch(_SQL["read_keys"], list(keys))
    return {row["key"]: ReservedKey(row["job_id"], row["request_hash"], row["answer"]) for row in rows}


async def store_answers(connection: Conn, answers: dict[str, tuple[UUID, str]]) -> None:
    """Keep what the first request of each key was answered, and with which job."""
    ids, texts = zip(*answers.values(), strict=True)
    await connection.execute(_SQL["store_answers"], list(answers), texts, ids)


async def get(connection: Conn, job_id: UUID) -> Any | None:
    """The job as the ``mainspring.jobs`` view shows it, or None."""
    return await connection.fetchrow(_SQL["get"], job_id)


async def events_of(connection: Conn, job_id: UUID) -> list[Any]:
    """The job's turns off the straight path, the oldest first."""
    return list(await connection.fetch(_SQL["events_of"], job_id))


async def state_of(connection: Conn, job_id: UUID) -> State | None:
    """The job's state, or None when there is no such job."""
    row = await connection.fetchrow(_SQL["state_of"], job_id)
    return State(row["state"]) if row else None


async def cancel(connection: Conn, job_id: UUID, author: str) -> State | None:
    """Cancel a job: at once when it waits, by request when it runs. Returns its state afterwards, or None.

    A job that runs stays ``running`` until its worker has stopped it.
    """
    await cancel_all(connection, [job_id], author)
    return await state_of(connection, job_id)


async def cancel_all(
    connection: Conn, job_ids: Sequence[UUID], author: str | None, details: dict[str, Any] | None = None
) -> list[UUID]:
    """``cancel`` many; returns those that are cancelled, or were asked to stop, by this."""
    done: list[UUID] = []
    left: Sequence[UUID] = job_ids
    while left:
        said = json.dumps(details or {})
        ended = await connection.fetch(_SQL["cancel_waiting"], left, author, said)
        asked = await connection.fetch(_SQL["request_cancel"], left, author, said, CANCEL_CHANNEL)
        done += [row["id"] for row in (*ended, *asked)]
        # Running when looked at as a waiting job, and waiting now: an attempt ended in between.
        left = [row["id"] for row in await connection.fetch(_SQL["waiting_among"], left)]
    return done


async def lock_free(connection: Conn, job_ids: Sequence[UUID]) -> list[UUID]:
    """Lock those of the jobs that nobody else works on now, until the transaction's end."""
    return [row["id"] for row in await connection.fetch(_SQL["lock_free"], job_ids)]


async def redrive(connection: Conn, job_id: UUID, author: str) -> bool:
    """Put a dead or cancelled job back to work with a fresh budget; False when it is neither."""
    if await redrive_dead(connection, [job_id], author):
        return True
    return bool(await connection.fetchrow(_SQL["redrive_cancelled"], job_id, author))


async def redrive_dead(
    connection: Conn, job_ids: Sequence[UUID], author: str, details: dict[str, Any] | None = None
) -> list[UUID]:
    """Put those of the jobs that are dead back to work with a fresh budget; returns which were."""
    rows = await connection.fetch(_SQL["redrive_dead"], job_ids, author, json.dumps(details or {}))
    return [row["id"] for row in rows]


async def edit(connection: Conn, job_id: UUID, change: JobEdit, author: str) -> bool:
    """Change a job that waits; False when none does, or when a new time is asked for one that is kept back."""
    return bool(await edit_all(connection, [job_id], change, WAITING, author))


async def hasten_retry(connection: Conn, job_id: UUID, author: str) -> bool:
    """Make a retrying job due now; False when it isn't retrying."""
    now = JobEdit(run_at=await fleet.now(connection))
    return bool(await edit_all(connection, [job_id], now, {State.RETRYING}, author))


async def edit_all(
    connection: Conn,
    job_ids: Sequence[UUID],
    change: JobEdit,
    of: Iterable[State],
    author: str,
    details: dict[str, Any] | None = None,
) -> list[UUID]:
    """``edit`` those of many that are in one of these states; returns which were changed."""
    said = {"priority": change.priority, "run_at": change.run_at and change.run_at.isoformat()} | (details or {})
    told = {name: value for name, value in said.items() if value is not None}
    if change.payload is not None:
        # Which one it was and is stays out of the history: payloads may hold what is to be forgotten one day.
        told["payload"] = "changed"
    rows = await connection.fetch(
        _SQL["edit"],
        *(job_ids, change.priority, change.run_at, list(of), change.payload, author, json.dumps(told)),
    )
    return [row["id"] for row in rows]


async def counts(connection: Conn) -> list[Any]:
    """Live jobs by queue and state, with the oldest due time of each."""
    return list(await connection.fetch(_SQL["counts"]))
