"""Dead letters: jobs that ended without success, and messages that no job stands behind."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from mainspring.domain.job import JobRef
from mainspring.domain.states import State
from mainspring.store.pool import Conn
from mainspring.store.sql import load

_SQL = load("dead_letters")


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A row of the dead letters."""

    id: UUID
    kind: str
    job_id: UUID | None
    queue: str | None
    task: str | None
    reason: str
    outcome: str | None
    error: dict[str, Any] | None
    fingerprint: str
    died_at: datetime


async def record_message(connection: Conn, *, reason: str, queue: str | None, body: bytes, detail: str = "") -> None:
    """Keep a message that can't become a job, with its raw body; the same one twice is recorded once."""
    digest = hashlib.blake2b(reason.encode() + b"\0" + body, digest_size=16).digest()
    error = json.dumps({"type": reason, "message": detail, "traceback": ""})
    await connection.execute(_SQL["record_message"], UUID(bytes=digest), queue, reason, error, body)


async def take_unalerted(connection: Conn, ids: Sequence[UUID], older_than: timedelta) -> list[DeadLetter]:
    """Dead letters without a recorded alert: those of ``ids``, and any that has waited for ``older_than``."""
    return [_letter(row) for row in await connection.fetch(_SQL["take_unalerted"], list(ids), older_than)]


async def mark_alerted(connection: Conn, ids: Sequence[UUID]) -> None:
    """Record that these were alerted."""
    await connection.execute(_SQL["mark_alerted"], list(ids))


async def dead_among(connection: Conn, refs: Sequence[JobRef]) -> list[UUID]:
    """Those of ``refs`` that are dead jobs."""
    rows = await connection.fetch(_SQL["live_states"], [ref.id for ref in refs])
    return [row["id"] for row in rows if row["state"] == State.DEAD.value]


async def reschedule_set_aside(connection: Conn, refs: Sequence[JobRef]) -> int:
    """Schedule again the jobs of a readable message that the broker set aside; returns how many were current."""
    ids, tickets = zip(*refs, strict=True)
    return len(await connection.fetch(_SQL["reschedule_set_aside"], ids, tickets))


@dataclass(frozen=True, slots=True)
class DeadLetterFilter:
    """What a dead letter must have; None asks for nothing."""

    queue: str | None = None
    task: str | None = None
    reason: str | None = None
    fingerprint: str | None = None


async def list_newest(
    connection: Conn, before: tuple[datetime, UUID] | None, most: int, wanted: DeadLetterFilter | None = None
) -> list[Any]:
    """A page of dead letters, the newest first."""
    instant, letter_id = before or (None, None)
    asked = wanted or DeadLetterFilter()
    rows = await connection.fetch(
        _SQL["list_newest"], instant, letter_id, most, asked.queue, asked.task, asked.reason, asked.fingerprint
    )
    return list(rows)


async def groups(connection: Conn, queue: str | None, task: str | None, most: int) -> list[Any]:
    """Dead letters that died alike, as groups, the largest first."""
    return list(await connection.fetch(_SQL["groups"], queue, task, most))


async def jobs_among(connection: Conn, wanted: DeadLetterFilter, most: int) -> list[UUID]:
    """Dead jobs that pass the filter, those that died first first, locked until the transaction ends."""
    rows = await connection.fetch(
        _SQL["jobs_among"], wanted.queue, wanted.task, wanted.reason, wanted.fingerprint, most
    )
    return [row["job_id"] for row in rows]


async def exists(connection: Conn, letter_id: UUID) -> bool:
    """Whether there is a dead letter of this id."""
    return bool(await connection.fetchval(_SQL["exists"], letter_id))


async def discard(connection: Conn, letter_id: UUID, author: str, why: str | None) -> bool:
    """Decide that nothing is to be done about a dead letter; False when there is none of this id."""
    return bool(await discard_all(connection, [letter_id], author, why))


async def discard_all(
    connection: Conn, letter_ids: Sequence[UUID], author: str, why: str | None, details: dict[str, Any] | None = None
) -> list[UUID]:
    """``discard`` many; returns which were there."""
    rows = await connection.fetch(_SQL["discard"], letter_ids, author, why, json.dumps(details or {}))
    return [row["id"] for row in rows]


def _letter(row: Any) -> DeadLetter:
    fields = dict(row)
    fields["error"] = json.loads(fields["error"]) if fields["error"] else None
    return DeadLetter(**fields)
