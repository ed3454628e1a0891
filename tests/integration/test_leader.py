"""Leadership: one holder at a time, and nothing commits under an old term."""

from __future__ import annotations

import asyncio

import pytest

from mainspring.boot_clock import boot_time
from mainspring.runtime import leader
from mainspring.runtime.leader import TRUST_SECONDS, Leadership
from mainspring.store.pool import Database, connect


async def expire(database: Database) -> None:
    async with database.connection() as connection:
        await connection.execute("UPDATE mainspring.leader SET expires_at = '-infinity'")


async def test_of_many_one_leads(database: Database) -> None:
    many = [Leadership(database, "leader") for _ in range(5)]
    await asyncio.gather(*(one.renew() for one in many))
    assert sum(one.is_held for one in many) == 1


async def test_an_ex_leader_that_wakes_up_writes_nothing(database: Database) -> None:
    frozen, other = Leadership(database, "leader"), Leadership(database, "leader")
    await frozen.renew()
    await expire(database)
    await other.renew()
    async with frozen.transaction() as connection:
        assert connection is None
    async with other.transaction() as connection:
        assert connection is not None
    await frozen.renew()
    assert not frozen.is_held


async def test_a_takeover_waits_for_a_duty_that_is_committing(database: Database, database_url: str) -> None:
    leader, other = Leadership(database, "leader"), Leadership(database, "leader")
    await leader.renew()
    async with leader.transaction() as connection:
        assert connection is not None
        await expire_from_outside(database_url)
        takeover = asyncio.create_task(other.renew())
        done, _ = await asyncio.wait([takeover], timeout=0.3)
        assert not done
    await asyncio.wait_for(takeover, 5)
    assert other.is_held


async def expire_from_outside(url: str) -> None:
    connection = await connect(url, "test")
    # Not a key column: this doesn't wait for the duty.
    await connection.execute("UPDATE mainspring.leader SET expires_at = '-infinity'")
    await connection.close()


async def test_a_leader_that_could_not_renew_in_time_begins_nothing(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Leadership(database, "leader")
    await one.renew()
    monkeypatch.setattr(leader, "boot_time", lambda: boot_time() + TRUST_SECONDS)
    assert not one.is_held
    async with one.transaction() as connection:
        assert connection is None


async def test_a_duty_that_hangs_lets_another_take_over(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = Leadership(database, "leader"), Leadership(database, "leader")
    await one.renew()
    async with one.transaction():
        monkeypatch.setattr(leader, "HANGS_SECONDS", -1.0)
        expires_at = "SELECT expires_at FROM mainspring.leader"
        async with database.connection() as connection:
            before = await connection.fetchval(expires_at)
            await one.renew()
            assert await connection.fetchval(expires_at) == before
    await one.renew()
    async with database.connection() as connection:
        assert await connection.fetchval(expires_at) > before
    await other.renew()
    assert not other.is_held
