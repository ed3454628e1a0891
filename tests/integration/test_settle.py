"""Fenced writes: what is stale changes nothing; an effect is complete at most once; history can't be changed."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from uuid import UUID, uuid4

import asyncpg
import pytest

from mainspring.domain.settlement import AttemptError, Verdict
from mainspring.domain.states import Outcome, Reason, State
from mainspring.store import attempts, settle
from mainspring.store.leases import Hold
from mainspring.store.pool import Conn, Database

from .rows import job, live, put_job

RETRY = Verdict(State.RETRYING, Outcome.FAILED, delay=timedelta(seconds=9), error=AttemptError("E", "m"))


async def running(connection: Conn, **columns: object) -> Hold:
    job_id = await put_job(connection, State.RUNNING, **columns)
    row = await live(connection, job_id)
    return Hold(job_id, row["fence"], row["claim_id"])


def stale_copies(hold: Hold) -> list[Hold]:
    return [hold._replace(fence=hold.fence - 1), hold._replace(fence=hold.fence + 1), hold._replace(claim_id=uuid4())]


async def test_a_write_with_an_old_fence_or_another_claim_id_changes_nothing(database: Database) -> None:
    async with database.connection() as connection:
        hold = await running(connection)
        before = await live(connection, hold.id)
        for stale in stale_copies(hold):
            assert await settle.succeed(connection, [settle.Success(*stale, '"late"')]) == {}
            assert await settle.fail(connection, [settle.Failure(*stale, "t", RETRY)]) == {}
        assert await live(connection, hold.id) == before
        assert await attempts.attempts_of(connection, hold.id) == []
        assert await connection.fetchval("SELECT count(*) FROM mainspring.completions") == 0


async def test_a_success_is_recorded_whole_or_not_at_all(database: Database) -> None:
    async with database.connection() as connection:
        hold = await running(connection)
        assert await settle.succeed(connection, [settle.Success(*hold, '{"cents": 5}')]) == {hold.id: False}
        row = await job(connection, hold.id)
        assert (row["state"], row["result"], row["fence"]) == ("succeeded", '{"cents": 5}', hold.fence + 1)
        (attempt,) = await attempts.attempts_of(connection, hold.id)
        assert (attempt["outcome"], attempt["fence"]) == ("succeeded", hold.fence)
        completion = await connection.fetchrow("SELECT * FROM mainspring.completions")
        assert (completion["idempotency_key"], completion["job_id"]) == (str(hold.id), hold.id)
        assert await attempts.recorded(connection, [(hold.id, hold.fence), (hold.id, 1)]) == {(hold.id, hold.fence)}


async def test_one_key_is_complete_once_even_within_one_batch(database: Database) -> None:
    async with database.connection() as connection:
        first, second, third = [await running(connection, idempotency_key="k") for _ in range(3)]
        applied = await settle.succeed(connection, [settle.Success(*one, None) for one in (first, second)])
        assert sorted(applied.values()) == [False, True]
        assert await settle.succeed(connection, [settle.Success(*third, None)]) == {third.id: True}
        assert await connection.fetchval("SELECT count(*) FROM mainspring.completions") == 1
        assert (await job(connection, third.id))["reason"] == "duplicate"


async def test_settlements_of_the_same_jobs_side_by_side_apply_once_and_never_deadlock(database: Database) -> None:
    async with database.connection() as connection:
        holds = [await running(connection) for _ in range(100)]

    async def succeed(batch: list[Hold]) -> set[UUID]:
        return set(
            await database.run(
                lambda connection: settle.succeed(connection, [settle.Success(*one, None) for one in batch])
            )
        )

    async def fail(batch: list[Hold]) -> set[UUID]:
        return set(
            await database.run(
                lambda connection: settle.fail(connection, [settle.Failure(*one, "t", RETRY) for one in batch])
            )
        )

    applied = await asyncio.gather(
        succeed(holds), fail(holds[::-1]), succeed(holds[::-1]), fail(holds), succeed(holds[::2]), fail(holds[::-2])
    )
    ids = [job_id for some in applied for job_id in some]
    assert sorted(ids) == sorted(one.id for one in holds)


async def test_a_burial_leaves_a_dead_letter_with_its_error(database: Database) -> None:
    verdict = Verdict(State.DEAD, Outcome.FAILED, reason=Reason.PERMANENT, error=AttemptError("Bad", "no customer"))
    async with database.connection() as connection:
        hold = await running(connection)
        await settle.fail(connection, [settle.Failure(*hold, "t", verdict)])
        letter = await connection.fetchrow("SELECT * FROM mainspring.dead_letters")
        assert (letter["job_id"], letter["reason"], letter["alerted_at"]) == (hold.id, "permanent", None)
        assert "no customer" in (await job(connection, hold.id))["error"]


async def test_a_hand_back_gives_the_attempt_back(database: Database) -> None:
    async with database.connection() as connection:
        hold = await running(connection)
        await settle.fail(
            connection,
            [settle.Failure(*hold, "t", Verdict(State.SCHEDULED, Outcome.HANDED_BACK, counts=False))],
        )
        row = await live(connection, hold.id)
        assert (row["attempt"], row["attempts_used"], row["hand_backs"], row["lease_until"]) == (1, 0, 1, None)


@pytest.mark.parametrize("table", ["attempts", "events"])
@pytest.mark.parametrize(
    "change", ["UPDATE mainspring.{} SET fence = 1", "DELETE FROM mainspring.{}", "TRUNCATE mainspring.{}"]
)
async def test_history_is_append_only(database: Database, table: str, change: str) -> None:
    async with database.connection() as connection:
        hold = await running(connection)
        await settle.fail(connection, [settle.Failure(*hold, "t", RETRY)])
        with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="append-only"):
            await connection.execute(change.format(table))


async def test_the_tables_own_constraints_refuse_an_impossible_row(database: Database) -> None:
    for columns in ({"state": "running"}, {"state": "nowhere"}, {"attempts_used": 3}, {"fence": 0}, {"priority": 10}):
        with pytest.raises(asyncpg.CheckViolationError):
            async with database.transaction() as connection:
                job_id = await put_job(connection, State.SCHEDULED)
                name, value = next(iter(columns.items()))
                await connection.execute(f"UPDATE mainspring.live_jobs SET {name} = $2 WHERE id = $1", job_id, value)
