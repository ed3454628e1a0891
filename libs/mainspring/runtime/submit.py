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
from dataclasses import dataclass
from uuid import UUID

from mainspring.domain.errors import InvalidInput
from mainspring.domain.job import JobRequest
from mainspring.domain.trace import JobTrace
from mainspring.fault_points import reach
from mainspring.runtime.batcher import Batcher
from mainspring.runtime.wake import Wake
from mainspring.store import jobs
from mainspring.store.jobs import NewJob, ReservedKey
from mainspring.store.pool import Conn, Database
from mainspring.store.wakeups import DUE_CHANNEL
from mainspring.telemetry import metrics


@dataclass(frozen=True, slots=True)
class Accepted:
    """An accepted job: its id, the answer as JSON text, and whether it was accepted earlier."""

    id: UUID
    answer: str
    is_replayed: bool = False


class Submitter:
    """Accepts jobs on a database of its own transactions."""

    def __init__(self, database: Database, wake: Wake) -> None:
        self._database = database
        self._wake = wake
        self._plain: Batcher[JobRequest, Accepted] = Batcher("submit", self._write, most=500, lanes=2)
        self._keyed: Batcher[JobRequest, Accepted] = Batcher("submit_keyed", self._write, most=200)

    async def submit(self, request: JobRequest) -> Accepted:
        """Accept one job; shares its commit with others. Raises InvalidInput, DatabaseUnavailable."""
        batcher = self._plain if request.idempotency_key is None else self._keyed
        return await batcher.submit(request)

    async def submit_many(self, requests: Sequence[JobRequest]) -> list[Accepted]:
        """Accept all or none, in one transaction. Raises InvalidInput naming ``jobs.<index>.…``."""
        return await self._write(requests)

    async def _write(self, requests: Sequence[JobRequest]) -> list[Accepted]:
        if any(one.idempotency_key is not None for one in requests):
            accepted = await self._database.run_in_transaction(lambda connection: submit_in(connection, requests))
        else:
            accepted = await self._write_plain(requests)
        reach("submit.committed")
        if len(requests) > 1 or requests[0].idempotency_key is not None:
            self._wake.call()
        return accepted

    async def _write_plain(self, requests: Sequence[JobRequest]) -> list[Accepted]:
        """Jobs without a key are one statement, which is its own transaction."""
        channel = DUE_CHANNEL if len(requests) == 1 else None
        made = await self._database.run(lambda connection: jobs.insert(connection, requests, wake=channel))
        _count(made)
        return [Accepted(job.id, _answer(job)) for job in made]


async def submit_in(connection: Conn, requests: Sequence[JobRequest]) -> list[Accepted]:
    """Accept jobs inside the caller's transaction: they exist if and only if it commits."""
    ids = [jobs.new_id() for _ in requests]
    originals = await _originals(connection, requests, ids)
    fresh = [(one, id_) for one, id_ in zip(requests, ids, strict=True) if id_ not in originals]
    made = await _insert(connection, fresh)
    answers = {job.id: _answer(job) for job in made}
    await _keep_answers(connection, made, answers)
    return [_accepted(id_, originals.get(id_), answers) for id_ in ids]


def _accepted(id_: UUID, original: ReservedKey | None, answers: dict[UUID, str]) -> Accepted:
    if original is None:
        return Accepted(id_, answers[id_])
    # A repeat within this very batch: its original has just been answered.
    return Accepted(original.job_id, original.answer or answers[original.job_id], is_replayed=True)


async def _insert(connection: Conn, fresh: Sequence[tuple[JobRequest, UUID]]) -> list[NewJob]:
    if not fresh:
        return []
    made = await jobs.insert(connection, [request for request, _ in fresh], [id_ for _, id_ in fresh])
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


async def _keep_answers(connection: Conn, made: Sequence[NewJob], answers: dict[UUID, str]) -> None:
    keyed = {job.request.idempotency_key: answers[job.id] for job in made if job.request.idempotency_key is not None}
    if keyed:
        await jobs.store_answers(connection, keyed)


def request_hash(request: JobRequest) -> bytes:
    """A digest of what a request asks for, whatever the order of its fields."""
    payload = json.dumps(json.loads(request.payload), sort_keys=True)
    parts = (request.task, payload, request.queue, request.priority, request.run_at, request.delay, request.timeout)
    more = (request.retry, request.tags, request.expires_at)
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
