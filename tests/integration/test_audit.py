"""The auditor finds each thing that must never be, says it once, has it mended, and finds nothing where all is well."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from mainspring.domain.states import State
from mainspring.runtime.leader import Leadership
from mainspring.store import audit, partitions
from mainspring.store.pool import Conn, Database
from mainspring.telemetry import metrics
from mainspring_services.scheduler.audit import Audit

from .rows import put_job

Plant = Callable[[Conn], Awaitable[UUID | None]]
LONG_AGO = "clock_timestamp() - interval '1 hour'"


async def _attempt(connection: Conn, job_id: UUID, outcome: str, fence: int = 6) -> None:
    await connection.execute(
        "INSERT INTO mainspring.attempts (job_id, fence, attempt, outcome, ended_at)"
        " VALUES ($1, $2, 1, $3, clock_timestamp() - interval '1 second')",
        *(job_id, fence, outcome),
    )


async def _set(connection: Conn, job_id: UUID, column: str) -> UUID:
    await connection.execute(f"UPDATE mainspring.live_jobs SET {column} = {LONG_AGO} WHERE id = $1", job_id)
    return job_id


async def lease_overdue(connection: Conn) -> UUID:
    return await _set(connection, await put_job(connection, State.RUNNING), "lease_until")


async def due_and_not_released(connection: Conn) -> UUID:
    return await _set(connection, await put_job(connection, State.SCHEDULED), "due_at")


async def unclaimed_and_not_sent_again(connection: Conn) -> UUID:
    return await _set(connection, await put_job(connection, State.ENQUEUED), "released_at")


async def retry_overdue(connection: Conn) -> UUID:
    return await _set(connection, await put_job(connection, State.RETRYING), "due_at")


async def expiry_overdue(connection: Conn) -> UUID:
    return await _set(connection, await put_job(connection, State.ENQUEUED), "expires_at")


async def outbox_overdue(connection: Conn) -> None:
    await connection.execute(
        "INSERT INTO mainspring.outbox (queue, ids, tickets, created_at)"
        f" VALUES ('q', ARRAY[gen_random_uuid()], ARRAY[1], {LONG_AGO})"
    )


async def schedule_overdue(connection: Conn) -> None:
    await connection.execute(
        f"INSERT INTO mainspring.schedules (name, task, cron, fires_at) VALUES ('s', 't', '* * * * *', {LONG_AGO})"
    )


async def alert_overdue(connection: Conn) -> UUID:
    job_id = await put_job(connection, State.DEAD)
    await _letter(connection, job_id, LONG_AGO)
    return job_id


async def _letter(connection: Conn, job_id: UUID, died_at: str) -> None:
    await connection.execute(
        "INSERT INTO mainspring.dead_letters (id, kind, job_id, reason, fingerprint, died_at)"
        f" VALUES ($1, 'job', $1, 'exhausted', 'f', {died_at})",
        job_id,
    )


async def success_without_job(connection: Conn) -> UUID:
    job_id = await put_job(connection, State.SCHEDULED)
    await _attempt(connection, job_id, "succeeded")
    return job_id


async def success_without_completion(connection: Conn) -> UUID:
    job_id = await put_job(connection, State.SUCCEEDED)
    await _attempt(connection, job_id, "succeeded")
    return job_id


async def dead_without_letter(connection: Conn) -> UUID:
    job_id = await put_job(connection, State.DEAD)
    await _attempt(connection, job_id, "failed")
    return job_id


async def live_and_finished(connection: Conn) -> UUID:
    job_id = await put_job(connection, State.CANCELLED)
    await connection.execute(
        "INSERT INTO mainspring.live_jobs"
        " (id, queue, task, state, priority, due_at, max_attempts, timeout_seconds, fence)"
        " VALUES ($1, 'q', 't', 'scheduled', 5, clock_timestamp(), 1, 1, 9)",
        job_id,
    )
    await _attempt(connection, job_id, "cancelled")
    return job_id


async def attempt_of_a_later_fence(connection: Conn) -> UUID:
    job_id = await put_job(connection, State.SCHEDULED)
    await _attempt(connection, job_id, "failed", fence=7)
    return job_id


async def released_without_details(connection: Conn) -> UUID:
    job_id = await put_job(connection, State.ENQUEUED)
    await connection.execute("DELETE FROM mainspring.job_details WHERE id = $1", job_id)
    return job_id


async def fire_without_job(connection: Conn) -> UUID:
    job_id = uuid4()
    await connection.execute("INSERT INTO mainspring.schedules (name, task, cron) VALUES ('s', 't', '* * * * *')")
    await connection.execute(
        "INSERT INTO mainspring.fires (schedule, nominal_at, last_nominal_at, job_id)"
        " VALUES ('s', clock_timestamp(), clock_timestamp(), $1)",
        job_id,
    )
    return job_id


async def row_outside_partitions(connection: Conn) -> None:
    await connection.execute(
        "INSERT INTO mainspring.events (job_id, event, at) VALUES ($1, 'x', clock_timestamp() + interval '90 days')",
        uuid4(),
    )


async def partition_of_tomorrow_missing(connection: Conn) -> None:
    tomorrow = await connection.fetchval(
        "SELECT to_char((clock_timestamp() + interval '1 day') AT TIME ZONE 'UTC', 'YYYYMMDD')"
    )
    await connection.execute(f"DROP TABLE mainspring.attempts_{tomorrow}")


PLANTS: list[Plant] = [
    lease_overdue,
    due_and_not_released,
    unclaimed_and_not_sent_again,
    retry_overdue,
    expiry_overdue,
    outbox_overdue,
    schedule_overdue,
    alert_overdue,
    success_without_job,
    success_without_completion,
    dead_without_letter,
    live_and_finished,
    attempt_of_a_later_fence,
    released_without_details,
    fire_without_job,
    row_outside_partitions,
    partition_of_tomorrow_missing,
]


async def _everything(connection: Conn) -> dict[str, list[UUID | None]]:
    found = {check: [one.job_id for one in await audit.look(connection, check)] for check in audit.CHECKS}
    return {check: jobs for check, jobs in found.items() if jobs}


def test_every_check_has_something_planted_for_it() -> None:
    assert {plant.__name__ for plant in PLANTS} == audit.CHECKS.keys()


async def test_where_all_is_well_nothing_is_found(database: Database) -> None:
    async with database.connection() as connection:
        for state in State:
            job_id = await put_job(connection, state)
            if state is State.SUCCEEDED:
                await _attempt(connection, job_id, "succeeded")
                await connection.execute(
                    "INSERT INTO mainspring.completions (idempotency_key, job_id, fence) VALUES ($1::text, $2, 6)",
                    *(str(job_id), job_id),
                )
            if state is State.DEAD:
                await _attempt(connection, job_id, "failed")
                await _letter(connection, job_id, "clock_timestamp()")
        assert await _everything(connection) == {}


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
async def test_what_was_planted_is_found_and_nothing_else(database: Database, plant: Plant) -> None:
    async with database.connection() as connection:
        job_id = await plant(connection)
        assert await _everything(connection) == {plant.__name__: [job_id]}


async def test_a_finding_is_said_once_counted_as_long_as_it_stays_and_mended(database: Database) -> None:
    mended: list[str] = []

    async def mend() -> None:
        mended.append("retry_overdue")

    leadership = Leadership(database, "leader")
    auditor = Audit(database, leadership, {"retry_overdue": mend})
    gauge = metrics.AUDIT_FINDINGS.labels("retry_overdue")
    async with database.connection() as connection:
        job_id = await retry_overdue(connection)
        await auditor.run_once()  # nobody leads: nothing is asked
        assert (gauge._value.get(), mended) == (0, [])
        await leadership.renew()
        await auditor.run_once()
        await auditor.run_once()
        assert (gauge._value.get(), mended) == (1, ["retry_overdue"] * 2)
        noted = await connection.fetch("SELECT job_id, details->>'check' AS name FROM mainspring.events")
        assert [tuple(row) for row in noted] == [(job_id, "retry_overdue")]
        await connection.execute("DELETE FROM mainspring.live_jobs")
        await auditor.run_once()
        assert (gauge._value.get(), len(mended)) == (0, 2)


async def test_the_questions_are_cheap_beside_a_million_jobs(database: Database) -> None:
    """By their plans: nothing walks over the jobs that wait."""
    async with database.connection() as connection:
        await partitions.ensure(connection)
        await connection.execute(
            "INSERT INTO mainspring.live_jobs (id, queue, task, state, priority, due_at, max_attempts, timeout_seconds)"
            " SELECT gen_random_uuid(), 'q', 't', 'scheduled', n % 10, clock_timestamp() + interval '1 day', 1, 60"
            " FROM generate_series(1, 50000) AS n"
        )
        await connection.execute("ANALYZE mainspring.live_jobs")
        await connection.execute("SELECT pg_stat_clear_snapshot()")
        read = "SELECT idx_tup_fetch + seq_tup_read FROM pg_stat_xact_user_tables WHERE relname = 'live_jobs'"
        async with connection.transaction():
            before = await connection.fetchval(read)
            for check in audit.CHECKS:
                await audit.look(connection, check, timedelta(0))
            assert await connection.fetchval(read) - before < 5000
