"""Taking jobs for a worker: the one place where a lease is taken.

The claim is total: each reference gets a verdict, and nothing is left to guess.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from mainspring.domain.job import JobRef
from mainspring.domain.retry import RetryPolicy, policy_from
from mainspring.store.fleet import WORKER_LIFE
from mainspring.store.pool import Conn
from mainspring.store.sql import load

_SQL = load("claims")
#: References in one statement at most.
MOST = 200
#: What a paused or limited job waits before it is released again; one whose task others know, at least.
RETURN_DELAY = timedelta(seconds=1)
#: What a job waits whose task no worker knows that lives: at least, and at most.
NO_WORKER_DELAYS = (timedelta(minutes=1), timedelta(hours=1))
#: What a job waits at most, half of its age, whose task other workers of its queue know.
LONGEST_ELSEWHERE_DELAY = timedelta(seconds=15)


@dataclass(frozen=True, slots=True)
class Claimant:
    """Who claims: the worker's id, and the names of the tasks that it knows."""

    id: UUID
    tasks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClaimedJob:
    """A running job as the worker that claimed it needs it."""

    id: UUID
    ref: JobRef
    queue: str
    task: str
    payload: str
    fence: int
    claim_id: UUID
    attempt: int
    attempts_used: int
    hand_backs: int
    timeout: timedelta
    policy: RetryPolicy
    idempotency_key: str
    run_alone: bool
    schedule: str | None
    nominal_at: datetime | None
    traceparent: str | None


@dataclass(slots=True)
class ClaimAnswer:
    """What became of each reference."""

    claimed: list[ClaimedJob] = field(default_factory=list)
    #: By reason: paused, limited, rate, circuit, unknown_task, no_worker. They wait in Postgres again.
    returned: dict[str, list[JobRef]] = field(default_factory=dict)
    #: Ended here: their key was complete already.
    duplicates: list[JobRef] = field(default_factory=list)
    #: Ended here by expiry; with their new tickets by queue, to be announced.
    dead: dict[str, list[JobRef]] = field(default_factory=dict)
    expired: list[JobRef] = field(default_factory=list)
    #: An older ticket, or a job that has ended: nothing to do.
    stale: list[JobRef] = field(default_factory=list)
    #: No such job.
    unknown: list[JobRef] = field(default_factory=list)

    def redundant(self) -> Iterator[JobRef]:
        """The references whose message is no longer needed, though nothing runs for them."""
        for refs in self.returned.values():
            yield from refs
        yield from (*self.duplicates, *self.expired, *self.stale, *self.unknown)


async def claim(
    connection: Conn, refs: Sequence[JobRef], claim_id: UUID, claimant: Claimant, lease: timedelta
) -> ClaimAnswer:
    """Claim ``refs`` under ``claim_id``. Asking again with the same id answers the same."""
    ids = [ref.id for ref in refs]
    rows = await connection.fetch(
        _SQL["claim"],
        ids,
        [ref.ticket for ref in refs],
        claim_id,
        lease,
        claimant.id,
        claimant.tasks,
        RETURN_DELAY,
        min(ids),
        max(ids),
        WORKER_LIFE,
        *NO_WORKER_DELAYS,
        LONGEST_ELSEWHERE_DELAY,
    )
    answer = ClaimAnswer()
    absent: list[JobRef] = []
    for row in rows:
        _sort(answer, absent, row, claim_id)
    await _end(connection, answer)
    await _tell_unknown(connection, answer, absent)
    return answer


async def tasks_of(connection: Conn, ids: Sequence[UUID]) -> dict[UUID, str]:
    """The tasks of jobs that have not ended."""
    return {row["id"]: row["task"] for row in await connection.fetch(_SQL["tasks_of"], ids)}


def _sort(answer: ClaimAnswer, absent: list[JobRef], row: Any, claim_id: UUID) -> None:
    ref = JobRef(row["id"], row["ticket"])
    match row["verdict"]:
        case "claimed":
            answer.claimed.append(_claimed(row, ref, claim_id))
        case "stale":
            answer.stale.append(ref)
        case "duplicate":
            answer.duplicates.append(ref)
        case "expired":
            answer.expired.append(ref)
        case "absent":
            absent.append(ref)
        case reason:
            answer.returned.setdefault(reason, []).append(ref)


def _claimed(row: Any, ref: JobRef, claim_id: UUID) -> ClaimedJob:
    return ClaimedJob(
        id=row["id"],
        ref=ref,
        queue=row["queue"],
        task=row["task"],
        payload=row["payload"],
        fence=row["fence"],
        claim_id=claim_id,
        attempt=row["attempt"],
        attempts_used=row["attempts_used"],
        hand_backs=row["hand_backs"],
        timeout=timedelta(seconds=row["timeout_seconds"]),
        policy=_policy(row["retry"]),
        idempotency_key=row["idempotency_key"],
        run_alone=row["run_alone"],
        schedule=row["schedule"],
        nominal_at=row["nominal_at"],
        traceparent=row["traceparent"],
    )


_policies: dict[str, RetryPolicy] = {}


def _policy(stored: str) -> RetryPolicy:
    """Read a stored policy; there are few different ones, so they are kept."""
    known = _policies.get(stored)
    if known is None:
        if len(_policies) > 1000:
            _policies.clear()
        known = _policies[stored] = policy_from(json.loads(stored))
    return known


async def _end(connection: Conn, answer: ClaimAnswer) -> None:
    """End what needs no run. A crash in between leaves the jobs as they were, and their message."""
    if answer.duplicates:
        await connection.fetch(_SQL["finish_duplicates"], *_columns(answer.duplicates))
    if answer.expired:
        for row in await connection.fetch(_SQL["bury_expired"], *_columns(answer.expired)):
            answer.dead.setdefault(row["queue"], []).append(JobRef(row["id"], row["fence"]))


async def _tell_unknown(connection: Conn, answer: ClaimAnswer, absent: Sequence[JobRef]) -> None:
    if not absent:
        return
    rows = await connection.fetch(_SQL["finished"], [ref.id for ref in absent])
    finished = {row["id"] for row in rows}
    answer.stale.extend(ref for ref in absent if ref.id in finished)
    answer.unknown.extend(ref for ref in absent if ref.id not in finished)


def _columns(refs: Sequence[JobRef]) -> tuple[list[UUID], list[int]]:
    return [ref.id for ref in refs], [ref.ticket for ref in refs]
