"""Leadership: one holder at a time, and nothing commits under an old term."""

from __future__ import annotations

import asyncio

from mainspring.runtime.leader import Leadership
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
