"""The keys in a process's memory: a new one is good at once, however many unknown ones are tried."""

from __future__ import annotations

import asyncio

import pytest

from mainspring.domain.access import Scope
from mainspring.domain.errors import Unauthenticated
from mainspring.runtime.key_ring import KeyRing
from mainspring.store import api_keys
from mainspring.store.pool import Database


async def make(database: Database, name: str) -> str:
    async with database.connection() as connection:
        _, text = await api_keys.create(connection, name, [Scope.READ])
    return f"Bearer {text}"


async def test_a_key_that_was_made_just_after_a_look_is_good_at_once(database: Database) -> None:
    ring = KeyRing(database, is_off=False, is_open=False)
    for number in range(3):
        with pytest.raises(Unauthenticated):
            await ring.caller(f"Bearer msk_{number:032x}_x", Scope.READ)
        assert await ring.caller(await make(database, f"new {number}"), Scope.READ) == f"new {number}"


async def test_unknown_keys_share_a_look(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    valid = api_keys.valid

    async def counted(connection):
        looks.append(connection)
        return await valid(connection)

    monkeypatch.setattr(api_keys, "valid", counted)
    ring = KeyRing(database, is_off=False, is_open=False)
    unknown = (ring.caller(f"Bearer msk_{number:032x}_x", Scope.READ) for number in range(100))
    answers = await asyncio.gather(*unknown, return_exceptions=True)
    assert {type(answer) for answer in answers} == {Unauthenticated}
    assert len(looks) <= 2
