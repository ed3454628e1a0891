"""The history as it is committed: whoever follows it misses nothing and sees nothing twice."""

from __future__ import annotations

import asyncio
import random
from uuid import UUID, uuid4

import pytest

from mainspring.domain.errors import InvalidInput
from mainspring.store import history
from mainspring.store.history import Place
from mainspring.store.pool import Conn, Database

NOTE = "INSERT INTO mainspring.events (job_id, event, fence) VALUES ($1, 'cancel', 1)"


async def follow(connection: Conn, place: Place, most: int = 1000) -> tuple[list[UUID], Place]:
    """Everything after ``place``, page by page."""
    found = []
    while True:
        page = await history.page(connection, place, most)
        place = page.place
        found += [row["job_id"] for row in page.rows]
        if page.is_last:
            return found, place


async def start(connection: Conn) -> Place:
    return (await history.page(connection, None, 1)).place


async def test_a_row_that_is_committed_late_is_not_passed_over(database: Database) -> None:
    late, early, last = uuid4(), uuid4(), uuid4()
    async with database.connection() as reader:
        place = await start(reader)
        async with database.transaction() as slow:
            await slow.execute(NOTE, late)
            async with database.connection() as quick:
                await quick.execute(NOTE, early)
            found, place = await follow(reader, place)
            assert found == [early]
            assert await follow(reader, place) == ([], place)
            async with database.connection() as quick:
                await quick.execute(NOTE, last)
        found, place = await follow(reader, place)
        assert found == [late, last]
        assert (await follow(reader, Place.parse(str(place))))[0] == []


@pytest.mark.parametrize("most", [1, 3, 1000])
async def test_every_row_comes_once_while_many_write(database: Database, most: int) -> None:
    dice = random.Random(most)
    written: list[UUID] = []

    async def write() -> None:
        for _ in range(10):
            ids = [uuid4() for _ in range(dice.randint(1, 4))]
            async with database.transaction() as connection:
                await connection.executemany(NOTE, [(one,) for one in ids])
                await asyncio.sleep(dice.random() / 50)
            written.extend(ids)

    async with database.connection() as reader:
        place = await start(reader)
        found: list[UUID] = []
        writers = asyncio.gather(*(write() for _ in range(4)))
        while not writers.done():
            page = await history.page(reader, place, most)
            place = Place.parse(str(page.place))  # as a client that goes away and comes back
            found += [row["job_id"] for row in page.rows]
        await writers
        rest, _ = await follow(reader, place, most)
    assert sorted(found + rest) == sorted(written)


async def test_a_page_is_read_by_the_index_behind_a_long_history(database: Database) -> None:
    async with database.transaction() as connection:
        await connection.execute(
            "INSERT INTO mainspring.events (job_id, event) SELECT gen_random_uuid(), 'x' FROM generate_series(1, 20000)"
        )
    async with database.transaction() as connection:
        place = await start(connection)
        plan = await connection.fetch(
            f"EXPLAIN (ANALYZE, COSTS OFF) {history._SQL['page'].replace('$1', repr(str(place.end)))}".replace(
                "$2", "'{1,2}'"
            ).replace("$3", "1000")
        )
        text = "\n".join(row[0] for row in plan)
        assert "Seq Scan on events" not in text, text
        assert "Rows Removed by Filter" not in text, text


@pytest.mark.parametrize("text", ["", "1", "1:2", "a:b:c", "1:2:3,", "1:2:3:4", "9" * 30 + ":1:", "1:2:\x00", "-1:2:"])
def test_what_is_not_a_place_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="Last-Event-ID"):
        Place.parse(text)


async def test_a_place_of_the_future_is_refused(database: Database) -> None:
    async with database.connection() as connection:
        with pytest.raises(InvalidInput, match="later time"):
            await history.page(connection, Place(2**50, frozenset()), 10)
