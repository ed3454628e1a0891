"""Accepting jobs, for the api and the Python client alike: group commit, idempotency keys, answers kept.

Single submits that arrive together share one commit; those with a key go in batches of their own, ordered by
key. A repeated key gives the first answer again, whatever became of the job; with another request it is
refused. A job's key and its row are committed together, so a crash leaves both or neither.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from mainspring.domain.errors import InvalidInput
from mainspring.domain.job import JobRequest
from mainspring.domain.trace import JobTrace
from mainspring.domain.unique import Then
from mainspring.fault_points import reach
from mainspring.runtime.batcher import Batcher
from mainspring.runtime.lent_credit import LentCredit
from mainspring.runtime.unique import resolve
from mainspring.runtime.wake import Wake
from mainspring.store import jobs
from mainspring.store.jobs import NewJob, ReservedKey
from mainspring.store.pool import Conn, Database
from mainspring.store.wakeups import DUE_CHANNEL
from mainspring.telemetry import metrics


@dataclass(frozen=True, slots=True)
class Accepted:
    """An accepted job: its id, the answer as JSON text, and whether it was accepted earlier.

    ``unique``: what a unique submit did that met a job which is the same, and whose id this is.
    """

    id: UUID
    answer: str
    is_replayed: bool = False
    unique: Then | None = None


class Submitter:
    """Accepts jobs on a database of its own transactions."""

    def __init__(self, database: Database, wake: Wake, lent: LentCredit | None = None) -> None:
        self._database = database
        self._wake = wake
        self._lent = lent or LentCredit()
        self._plain: Batcher[JobRequest, Accepted] = Batcher("submit", self._write, most=500, lanes=2)
        self._keyed: Batcher[JobRequest, Accepted] = Batcher("submit_keyed", self._write, most=200)

    async def submit(self, request: JobRequest) -> Accepted:
        """Accept one job; shares its commit with others. Raises InvalidInput, DatabaseUnavailable."""
        batcher = self._keyed if _needs_transaction(request) else self._plain
        return await batcher.submit(request)

    async def submit_many(self, requests: Sequence[JobRequest]) -> list[Accepted]:
        """Accept all or none, in one transaction. Raises InvalidInput naming ``jobs.<index>.…``."""
        return await self._write(requests)

    async def _write(self, requests: Sequence[JobRequest]) -> list[Accepted]:
        if any(map(_needs_transaction, requests)):
            accepted = await self._database.run_in_transaction(lambda connection: submit_in(connection, requests))
        else:
            accepted = await self._write_plain(requests)
        reach("submit.committed")
        if len(requests) > 1 or _needs_transaction(requests[0]):
            self._wake.call()
        return accepted

    async def _write_plain(self, requests: Sequence[JobRequest]) -> list[Accepted]:
        """Jobs without a key are one statement, which is its own transaction."""
        if len(requests) == 1:
            made = await self._write_lone(requests)
        else:
            made = await self._database.run(lambda connection: jobs.insert(connection, requests))
        _count(made)
        return [Accepted(job.id, _answer(job)) for job in made]

    async def _write_lone(self, requests: Sequence[JobRequest]) -> list[NewJob]:
        lenders = self._lent.lenders(requests[0].queue)
        made = await self._database.run(
            lambda connection: jobs.insert(connection, requests, wake=DUE_CHANNEL, lenders=lenders)
        )
        if made[0].is_released:
            self._lent.spend(made[0].queue)
        return made


async def submit_in(connection: Conn, requests: Sequence[JobRequest]) -> list[Accepted]:
    """Accept jobs inside the caller's transaction: they exist if and only if it commits."""
    ids = [jobs.new_id() for _ in requests]
    originals = await _originals(connection, requests, ids)
    fresh = {id_: one for one, id_ in zip(requests, ids, strict=True) if id_ not in originals}
    resolved = await resolve(connection, [(one, id_) for id_, one in fresh.items()])
    made = await _insert(connection, resolved.making)
    accepted = {job.id: Accepted(job.id, _answer(job)) for job in made}
    for id_, (place, then) in resolved.places.items():
        first = accepted.get(place) or Accepted(place, _answer_of(await jobs.get(connection, place)))
        accepted[id_] = replace(first, unique=then)
    keyed = {one.idempotency_key: accepted[id_] for id_, one in fresh.items() if one.idempotency_key is not None}
    if keyed:
        await jobs.store_answers(connection, {key: (one.id, one.answer) for key, one in keyed.items()})
    return [accepted[id_] if id_ in accepted else _replayed(originals[id_], accepted) for id_ in ids]


def _needs_transaction(request: JobRequest) -> bool:
    """Whether accepting it takes more than one statement."""
    return request.idempotency_key is not None or request.unique is not None


def _replayed(original: ReservedKey, accepted: dict[UUID, Accepted]) -> Accepted:
    if original.answer is not None:
        return Accepted(original.job_id, original.answer, is_replayed=True)
    # A repeat within this very batch: its original has just been answered.
    return replace(accepted[original.job_id], is_replayed=True)


async def _insert(connection: Conn, making: dict[UUID, JobRequest]) -> list[NewJob]:
    if not making:
        return []
    made = await jobs.insert(connection, list(making.values()), list(making))
    _count(made)
    return made


def _count(made: Sequence[NewJob]) -> None:
    for queue, count in Counter(job.queue for job in made).items():
        metrics.SUBMITTED.labels(queue).inc(count)


async def _originals(connection: Conn, requests: Sequence[JobRequest], ids: Sequence[UUID]) -> dict[UUID, ReservedKey]:
    """Reserve the keys; for each id that repeats a key: the job that has it. Raises InvalidInput."""
    keyed = [
        (index, one.idempotency_key, ReservedKey(id_, request_hash(one), None))
        for index, (one, id_) in enumerate(zip(requests, ids, strict=True))
        if one.idempotency_key is not None
    ]
    if not keyed:
        return {}
    owners = {key: mine for _, key, mine in reversed(keyed)}
    await connection.execute("SET LOCAL lock_timeout = '1s'")
    free = await jobs.reserve_keys(connection, [(key, one.job_id, one.request_hash) for key, one in owners.items()])
    owners |= await jobs.read_keys(connection, [key for key in owners if key not in free])
    for index, key, mine in keyed:
        if owners[key].request_hash != mine.request_hash:
            prefix = f"jobs.{index}." if len(requests) > 1 else ""
            raise InvalidInput(f"{prefix}idempotency_key", "was used with another request")
    return {mine.job_id: owners[key] for _, key, mine in keyed if owners[key].job_id != mine.job_id}


def request_hash(request: JobRequest) -> bytes:
    """A digest of what a request asks for, whatever the order of its fields."""
    payload = json.dumps(json.loads(request.payload), sort_keys=True)
    parts = (request.task, payload, request.queue, request.priority, request.run_at, request.delay, request.timeout)
    more = (request.retry, request.tags, request.expires_at, *([request.unique] if request.unique else []))
    return hashlib.blake2b(repr(parts + more).encode(), digest_size=16).digest()


def _answer(job: NewJob) -> str:
    request = job.request
    key = request.idempotency_key or str(job.id)
    body = {
        "id": str(job.id),
        "task": request.task,
        "queue": job.queue,
        "state": "scheduled",
        "reason": None,
        "priority": job.priority,
        "payload": None,
        "result": None,
        "error": None,
        "attempt": 0,
        "attempts_used": 0,
        "max_attempts": job.max_attempts,
        "timeout_seconds": job.timeout_seconds,
        "run_at": (request.run_at or job.due_at).isoformat(),
        "due_at": job.due_at.isoformat(),
        "created_at": job.created_at.isoformat(),
        "started_at": None,
        "finished_at": None,
        "idempotency_key": key,
        "tags": list(request.tags),
        "schedule": request.schedule,
        "nominal_at": request.nominal_at.isoformat() if request.nominal_at else None,
        "worker": None,
        "trace_id": JobTrace(job.id, request.traceparent).trace_id,
    }
    # The payload is JSON text already: put it in its place instead of reading and writing it again.
    return json.dumps(body).replace('"payload": null', f'"payload": {request.payload}', 1)


def _answer_of(row: Any) -> str:
    """A job that is there, as ``_answer`` has a new one. ``row`` is of the ``jobs`` view."""
    body = {name: row[name] for name in _FIELDS} | {
        name: json.loads(row[name]) if row[name] is not None else None for name in ("payload", "result", "error")
    }
    body["trace_id"] = JobTrace(row["id"], row["traceparent"]).trace_id
    return json.dumps(body, default=lambda value: value.isoformat() if isinstance(value, datetime) else str(value))


_FIELDS = [
    "id",
    "task",
    "queue",
    "state",
    "reason",
    "priority",
    "attempt",
    "attempts_used",
    "max_attempts",
    "timeout_seconds",
    "run_at",
    "due_at",
    "created_at",
    "started_at",
    "finished_at",
    "idempotency_key",
    "tags",
    "schedule",
    "nominal_at",
    "worker",
]
