"""Every transition's statement against a row in every state: what happens is what the table says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from mainspring.domain.job import JobRef
from mainspring.domain.limits import Kind, Limit
from mainspring.domain.settlement import Verdict
from mainspring.domain.states import Event, Outcome, Reason, State, sources_of, targets_of
from mainspring.domain.turns import Turns
from mainspring.store import (
    admission,
    claims,
    dead_letters,
    jobs,
    limits,
    lines,
    queues,
    reconcile,
    release,
    settle,
)
from mainspring.store.pool import Conn, Database
from mainspring.store.release import Bounds

from .rows import job, put_job

Act = Callable[[Conn, UUID, Any], Awaitable[None]]


async def _release(connection: Conn, job_id: UUID, row: Any) -> None:
    await release.release(connection, "q", Bounds())


async def _release_under_a_limit(connection: Conn, job_id: UUID, row: Any) -> None:
    await limits.save(connection, Limit("some", Kind.CONCURRENCY, 5, queues=("q",)))
    await lines.serve(connection, "q", Bounds(), Turns())


async def _admit(connection: Conn, job_id: UUID, row: Any) -> None:
    await queues.set_concurrency(connection, "q", 5)
    await admission.admit(connection, "q", [JobRef(job_id, row["fence"])])


async def _block(connection: Conn, job_id: UUID, row: Any) -> None:
    await queues.set_concurrency(connection, "q", 1)
    await put_job(connection, State.RUNNING)
    await admission.admit(connection, "q", [JobRef(job_id, row["fence"])])


async def _return(connection: Conn, job_id: UUID, row: Any) -> None:
    await queues.pause(connection, "q")
    await admission.return_paused(connection, "q", [JobRef(job_id, row["fence"])], timedelta(seconds=1))
    await queues.resume(connection, "q")


async def _join(connection: Conn, job_id: UUID, row: Any) -> None:
    await queues.change(connection, "q", {"fair_by": "who"})
    await lines.serve(connection, "q", Bounds(), Turns(), window=0)
    await queues.change(connection, "q", {"fair_by": None})


async def _limit(connection: Conn, job_id: UUID, row: Any) -> None:
    rate = Limit("r", Kind.RATE, 1, queues=("q",), period_seconds=60.0, burst=1)
    await limits.save(connection, rate)
    other = await put_job(connection, State.ENQUEUED)
    await claims.claim(connection, [JobRef(other, 7)], uuid4(), claims.Claimant(uuid4(), ("t",)), timedelta(seconds=15))
    await _claim(connection, job_id, row)


async def _claim(connection: Conn, job_id: UUID, row: Any) -> None:
    claimant = claims.Claimant(uuid4(), ("t",))
    await claims.claim(connection, [JobRef(job_id, row["fence"])], uuid4(), claimant, timedelta(seconds=15))


async def _expire(connection: Conn, job_id: UUID, row: Any) -> None:
    await connection.execute(
        "UPDATE mainspring.live_jobs SET expires_at = clock_timestamp() - interval '1 s' WHERE id = $1", job_id
    )
    await reconcile.bury_overdue(connection)


async def _duplicate(connection: Conn, job_id: UUID, row: Any) -> None:
    await connection.execute(
        "INSERT INTO mainspring.completions (idempotency_key, job_id, fence) VALUES ($1, $2, 1)", str(job_id), uuid4()
    )
    await _claim(connection, job_id, row)


async def _succeed(connection: Conn, job_id: UUID, row: Any) -> None:
    await settle.succeed(connection, [settle.Success(job_id, row["fence"], row["claim_id"], None)])


def _fail(verdict: Verdict) -> Act:
    async def act(connection: Conn, job_id: UUID, row: Any) -> None:
        await settle.fail(connection, [settle.Failure(job_id, row["fence"], row["claim_id"], "t", verdict)])

    return act


async def _reschedule(connection: Conn, job_id: UUID, row: Any) -> None:
    await reconcile.reschedule_retries(connection, timedelta(0))


async def _reconcile(connection: Conn, job_id: UUID, row: Any) -> None:
    await reconcile.reschedule_forgotten(connection, await reconcile.now(connection))


async def _set_aside(connection: Conn, job_id: UUID, row: Any) -> None:
    await dead_letters.reschedule_set_aside(connection, [JobRef(job_id, row["fence"])])


async def _edit(connection: Conn, job_id: UUID, row: Any) -> None:
    await jobs.edit(connection, job_id, jobs.JobEdit(priority=1), "test")


async def _cancel(connection: Conn, job_id: UUID, row: Any) -> None:
    await jobs.cancel(connection, job_id, "test")


async def _redrive(connection: Conn, job_id: UUID, row: Any) -> None:
    await jobs.redrive(connection, job_id, "test")


async def _discard(connection: Conn, job_id: UUID, row: Any) -> None:
    await connection.execute(
        "INSERT INTO mainspring.dead_letters (id, kind, job_id, reason, fingerprint)"
        " VALUES ($1, 'job', $1, 'exhausted', 'f')",
        job_id,
    )
    await dead_letters.discard(connection, job_id, "test", None)


ACTS: list[tuple[Event, State, Act]] = [
    (Event.RELEASE, State.ENQUEUED, _release),
    (Event.RELEASE, State.ADMITTED, _release_under_a_limit),
    (Event.ADMIT, State.ADMITTED, _admit),
    (Event.BLOCK, State.BLOCKED, _block),
    (Event.RETURN, State.SCHEDULED, _return),
    (Event.JOIN, State.BLOCKED, _join),
    (Event.LIMIT, State.BLOCKED, _limit),
    (Event.CLAIM, State.RUNNING, _claim),
    (Event.EXPIRE, State.DEAD, _expire),
    (Event.DUPLICATE, State.SUCCEEDED, _duplicate),
    (Event.SUCCEED, State.SUCCEEDED, _succeed),
    (Event.RETRY, State.RETRYING, _fail(Verdict(State.RETRYING, Outcome.FAILED))),
    (Event.RETRY, State.SCHEDULED, _fail(Verdict(State.SCHEDULED, Outcome.FAILED))),
    (Event.BURY, State.DEAD, _fail(Verdict(State.DEAD, Outcome.FAILED, reason=Reason.PERMANENT))),
    (Event.HAND_BACK, State.SCHEDULED, _fail(Verdict(State.SCHEDULED, Outcome.HANDED_BACK, counts=False))),
    (Event.STOP, State.CANCELLED, _fail(Verdict(State.CANCELLED, Outcome.CANCELLED))),
    (Event.RESCHEDULE, State.SCHEDULED, _reschedule),
    (Event.RECONCILE, State.SCHEDULED, _reconcile),
    (Event.RECONCILE, State.SCHEDULED, _set_aside),
    (Event.EDIT, State.SCHEDULED, _edit),
    (Event.CANCEL, State.CANCELLED, _cancel),
    (Event.REDRIVE, State.SCHEDULED, _redrive),
    (Event.DISCARD, State.DEAD, _discard),
]


def test_every_transition_has_a_statement_here() -> None:
    assert {event for event, _, _ in ACTS} == set(Event)


@pytest.mark.parametrize(("event", "target", "act"), ACTS, ids=lambda value: str(getattr(value, "value", "")) or None)
async def test_the_statement_changes_what_the_table_allows_and_nothing_else(
    database: Database, event: Event, target: State, act: Act
) -> None:
    for state in State:
        async with database.transaction() as connection:
            job_id = await put_job(connection, state)
            row = await connection.fetchrow(
                "SELECT id, fence, claim_id FROM mainspring.live_jobs WHERE id = $1"
                " UNION ALL SELECT id, fence, NULL FROM mainspring.finished_jobs WHERE id = $1",
                job_id,
            )
            await act(connection, job_id, row)
            after = await job(connection, job_id)
            if state in sources_of(event) and target in targets_of(event, state):
                assert (after["state"], after["fence"]) == (target, row["fence"] + 1), f"{event} from {state}"
            else:
                assert (after["state"], after["fence"]) == (state, row["fence"]), f"{event} from {state}"
            await connection.execute("DELETE FROM mainspring.live_jobs")
            await connection.execute("DELETE FROM mainspring.finished_jobs")
            await connection.execute("DELETE FROM mainspring.limits")
