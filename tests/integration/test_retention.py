"""Retention on real partitions: what is over goes, what is wanted stays, and nobody waits for it."""

from __future__ import annotations

import asyncio
import json
import random
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from mainspring.domain.ids import uuid7
from mainspring.domain.retention import Retention
from mainspring.domain.states import State
from mainspring.runtime.leader import Leadership
from mainspring.store import jobs, partitions, queues, retention
from mainspring.store.pool import Conn, Database, connect
from mainspring_services.scheduler import retain
from mainspring_services.scheduler.retain import Retain

from .rows import put_job


def ago(days: float) -> datetime:
    return datetime.now(UTC) - timedelta(days=days)


async def make_days(connection: Conn, *days: int) -> None:
    for days_ago in days:
        for table in ("job_details", *partitions.BY_INSTANT):
            await partitions.make(connection, table, ago(days_ago).date())


async def put(connection: Conn, state: State, days: float, **columns: Any) -> UUID:
    """A job that was made and has ended so many days ago."""
    if state in {State.SUCCEEDED, State.CANCELLED}:
        columns |= {"finished_at": ago(days)}
    made = int(ago(columns.pop("made", days)).timestamp() * 1000)
    return await put_job(connection, state, id=uuid7(made, random.getrandbits(74)), **columns)


async def tidy(database: Database) -> Retain:
    async with database.connection() as connection:
        await connection.execute("UPDATE mainspring.leader SET expires_at = '-infinity'")
    leadership = Leadership(database, "leader")
    await leadership.renew()
    assert leadership.is_held
    loop = Retain(database, leadership)
    while (await loop.run_once()).wait is not None:
        pass
    return loop


async def partitions_of(connection: Conn) -> set[str]:
    return {day.name for day in await retention.days(connection) if day.ends < datetime.now(UTC)}


async def left(connection: Conn, ids: list[UUID]) -> list[bool]:
    return [await jobs.get(connection, job_id) is not None for job_id in ids]


async def has_payload(connection: Conn, job_id: UUID) -> bool:
    return bool(await connection.fetchval("SELECT count(*) FROM mainspring.job_details WHERE id = $1", job_id))


async def test_a_day_that_is_over_is_dropped_with_payloads_and_later_with_its_history(database: Database) -> None:
    async with database.connection() as connection:
        await make_days(connection, 10, 40, 100)
        old, young = await put(connection, State.SUCCEEDED, 40), await put(connection, State.SUCCEEDED, 10)
        await tidy(database)
        assert await left(connection, [old, young]) == [False, True]
        assert not await has_payload(connection, old)
        names = {f"{table}_{ago(10):%Y%m%d}" for table in ("job_details", *partitions.BY_INSTANT)}
        assert await partitions_of(connection) == names | {
            f"{table}_{ago(40):%Y%m%d}" for table in ("attempts", "events")
        }


async def test_what_has_not_ended_and_what_is_dead_keeps_its_payload(database: Database) -> None:
    async with database.connection() as connection:
        await make_days(connection, 40)
        waiting, dead = await put(connection, State.SCHEDULED, 40), await put(connection, State.DEAD, 40)
        late = await put(connection, State.SUCCEEDED, 1, made=40)
        await connection.execute("UPDATE mainspring.job_details SET payload = '{\"a\": 1}' WHERE id = $1", dead)
        await tidy(database)
        assert f"job_details_{ago(40):%Y%m%d}" not in await partitions_of(connection)
        for job_id in (waiting, dead, late):
            assert await has_payload(connection, job_id)
        assert json.loads((await jobs.get(connection, dead))["payload"]) == {"a": 1}
        # Redriven and done, its payload goes with it, from where it was kept.
        await connection.execute("DELETE FROM mainspring.live_jobs WHERE id = $1", dead)
        await tidy(database)
        assert [await has_payload(connection, one) for one in (waiting, dead, late)] == [True, False, True]


async def test_a_day_of_which_much_is_wanted_stays_whole(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "MOST_SURVIVORS", 3)
    async with database.connection() as connection:
        await make_days(connection, 40)
        ids = [await put(connection, State.DEAD, 40) for _ in range(4)]
        await tidy(database)
        assert f"job_details_{ago(40):%Y%m%d}" in await partitions_of(connection)
        await connection.execute("DELETE FROM mainspring.live_jobs WHERE id = $1", ids[0])
        await tidy(database)
        assert [await has_payload(connection, one) for one in ids] == [False, True, True, True]


async def test_a_long_reader_makes_nobody_wait(database: Database, database_url: str) -> None:
    async with database.connection() as connection:
        await make_days(connection, 40)
        await put(connection, State.SUCCEEDED, 40)
        reader = await connect(database_url, "reader")
        await reader.execute("BEGIN")
        await reader.execute("SELECT count(*) FROM mainspring.finished_jobs")
        tidying = asyncio.create_task(tidy(database))
        while not tidying.done():
            async with asyncio.timeout(1):
                await put(connection, State.SUCCEEDED, 0)
        await tidying
        assert f"finished_jobs_{ago(40):%Y%m%d}" in await partitions_of(connection)
        await reader.close()
        await tidy(database)
        assert f"finished_jobs_{ago(40):%Y%m%d}" not in await partitions_of(connection)


async def test_a_queue_keeps_for_longer_or_less_long(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retain, "AT_ONCE", 3)
    async with database.connection() as connection:
        await make_days(connection, 5, 40)
        await queues.make_queues(connection, ["brief", "audit"])
        await queues.change(connection, "brief", {"retention": {"succeeded_days": 2}})
        await queues.change(connection, "audit", {"retention": {"succeeded_days": 400}})
        brief = [await put(connection, State.SUCCEEDED, 5, queue="brief") for _ in range(10)]
        fresh = await put(connection, State.SUCCEEDED, 1, queue="brief")
        cancelled = await put(connection, State.CANCELLED, 5, queue="brief")
        audit = await put(connection, State.SUCCEEDED, 40, queue="audit")
        other = [await put(connection, State.SUCCEEDED, days) for days in (40, 40, 40, 40, 5)]
        await tidy(database)
        assert await left(connection, brief) == [False] * 10
        assert [await has_payload(connection, one) for one in brief] == [False] * 10
        assert await left(connection, [fresh, cancelled, audit]) == [True, True, True]
        assert await left(connection, other) == [False] * 4 + [True]
        assert await has_payload(connection, audit)


async def test_the_last_so_many_stay(database: Database) -> None:
    async with database.connection() as connection:
        await make_days(connection, 1, 2)
        await queues.make_queues(connection, ["q"])
        await queues.change(connection, "q", {"retention": {"last": 3}})
        ids = [await put(connection, State.SUCCEEDED, days) for days in (2, 1.5, 1.2, 0.1, 0.0)]
        other = await put(connection, State.SUCCEEDED, 2, queue="other")
        loop = await tidy(database)
        assert await left(connection, ids) == [False, False, True, True, True]
        assert await left(connection, [other]) == [True]
        newer = await put(connection, State.CANCELLED, 0)
        while (await loop.run_once()).wait is not None:
            pass
        assert await left(connection, [*ids[2:], newer]) == [False, True, True, True]


async def test_results_may_go_before_their_jobs(database: Database) -> None:
    async with database.connection() as connection:
        await make_days(connection, 3)
        await retention.save(connection, Retention(results_days=2))
        old = await put(connection, State.SUCCEEDED, 3, result='{"sum": 1}')
        young = await put(connection, State.SUCCEEDED, 1, result='{"sum": 2}')
        await tidy(database)
        assert (await jobs.get(connection, old))["result"] is None
        assert json.loads((await jobs.get(connection, young))["result"]) == {"sum": 2}


async def test_keys_outlive_their_jobs_by_the_stated_time(database: Database) -> None:
    async with database.connection() as connection:
        live = await put(connection, State.SCHEDULED, 0, idempotency_key="live")
        for key, days, job_id in (("old", 61, None), ("young", 59, None), ("live", 61, live)):
            await connection.execute(
                "INSERT INTO mainspring.completions VALUES ($1, $2, 1, $3)", key, job_id or uuid7(1, 1), ago(days)
            )
            await connection.execute(
                "INSERT INTO mainspring.idempotency_keys (key, job_id, request_hash, created_at)"
                " VALUES ($1, $2, '', $3)",
                *(key, job_id or uuid7(1, 1), ago(days)),
            )
        await tidy(database)
        completed = await connection.fetch("SELECT idempotency_key FROM mainspring.completions ORDER BY 1")
        assert [row["idempotency_key"] for row in completed] == ["young"]
        keys = await connection.fetch("SELECT key FROM mainspring.idempotency_keys ORDER BY 1")
        assert [row["key"] for row in keys] == ["live", "young"]


async def test_many_keys_go_in_parts(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retain, "BLOCKS_AT_ONCE", 2)
    monkeypatch.setattr(retain, "PARTS", 3)
    async with database.connection() as connection:
        await connection.execute(
            "INSERT INTO mainspring.completions SELECT 'k' || n, gen_random_uuid(), 1,"
            " clock_timestamp() - make_interval(days => 50 + n % 20) FROM generate_series(1, 5000) AS n"
        )
        await tidy(database)
        assert await connection.fetchval("SELECT count(*) FROM mainspring.completions") == 2750


async def test_only_the_leader_lets_go(database: Database) -> None:
    async with database.connection() as connection:
        await make_days(connection, 40)
        old = await put(connection, State.SUCCEEDED, 40)
        await Retain(database, Leadership(database, "leader")).run_once()
        assert await left(connection, [old]) == [True]
