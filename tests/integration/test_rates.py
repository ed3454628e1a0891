"""Rate limits: what the claim gives out never exceeds them, in any span of time, whatever the clock does."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mainspring.domain.job import JobRef
from mainspring.domain.limits import NO_LINE, Kind, Limit, Line
from mainspring.domain.states import State
from mainspring.store import claims, limits
from mainspring.store.claims import ClaimAnswer, Claimant
from mainspring.store.pool import Conn, Database

from .rows import live, put_job

LEASE = timedelta(minutes=1)
START = datetime(2026, 1, 1, tzinfo=UTC)
#: One rate in SQL, asked as the claim asks it.
STEP = """
WITH asked AS (
    SELECT
        row(
            NULL, 'rate', $1, 1, 'r', '{}', '{}', NULL, $2, $3, NULL, NULL, 'wait', false, NULL, NULL
        )::mainspring.limits AS rate,
        row(1, '', $4, $5, $6, $7)::mainspring.rates AS given
)
SELECT found.room, found.free_at, after.latest, after.level, after.taken_at, after.taken
FROM asked
CROSS JOIN LATERAL mainspring.rate_room(asked.rate, asked.given, $8, $9) AS found
CROSS JOIN LATERAL mainspring.rate_spent(asked.rate, asked.given, $8, found.level, $9) AS after
"""


def rate(most: int, period: float, **fields: Any) -> Limit:
    return Limit("r", Kind.RATE, most, **{"queues": ("q",), "period_seconds": period, "burst": most} | fields)


async def put(connection: Conn, payload: dict[str, Any] | None = None, state: State = State.ENQUEUED) -> JobRef:
    job_id = await put_job(connection, state)
    await connection.execute(
        "UPDATE mainspring.job_details SET payload = $2 WHERE id = $1", job_id, json.dumps(payload or {})
    )
    return JobRef(job_id, 7)


async def claim(database: Database, refs: list[JobRef], claim_id: UUID | None = None) -> ClaimAnswer:
    worker = Claimant(uuid4(), ("t",))
    return await database.run(lambda connection: claims.claim(connection, refs, claim_id or uuid4(), worker, LEASE))


class Bucket:
    """The rate in the plainest terms: every grant ever made is remembered."""

    def __init__(self, most: int, period: float, burst: int) -> None:
        self.most, self.period, self.burst = most, period, burst
        self.grants: list[tuple[float, int]] = []

    def grant(self, at: float, cost: int) -> None:
        self.grants.append((at, cost))

    def check(self) -> None:
        """No span holds more than it may, whichever grants it begins and ends with."""
        for first, (begin, _) in enumerate(self.grants):
            total = 0
            for at, cost in self.grants[first:]:
                total += cost
                span = at - begin
                assert total <= self.burst + self.most * span / self.period + 1e-3, (begin, at, total)
                if self.burst <= self.most and span < self.period:
                    assert total <= self.most, (begin, at, total)


steps = st.lists(st.tuples(st.floats(0, 3, allow_nan=False), st.integers(1, 5)), min_size=1, max_size=40)


@settings(
    derandomize=True, deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(rate_steps=steps, most=st.integers(1, 12), period=st.sampled_from([0.5, 1.0, 7.0]), burst=st.integers(1, 20))
def test_in_no_span_of_time_is_more_given_than_the_rate_allows(
    rate_steps: list[tuple[float, int]], most: int, period: float, burst: int, statements: Any
) -> None:
    model = Bucket(most, period, burst)
    given_out: tuple[Any, ...] = (datetime(1970, 1, 1, tzinfo=UTC), 0.0, [], [])
    elapsed = 0.0
    for wait, asked in rate_steps:
        elapsed += wait
        cost = min(asked, burst, most if burst <= most else burst)
        row = statements(STEP, most, period, burst, *given_out, START + timedelta(seconds=elapsed), cost)
        while row["room"] < cost:
            # What it says about when to come again is true: there is room then, and never before.
            free_at = (row["free_at"] - START).total_seconds()
            assert free_at > elapsed
            elapsed = free_at + 1e-6
            row = statements(STEP, most, period, burst, *given_out, START + timedelta(seconds=elapsed), cost)
        model.grant(elapsed, cost)
        given_out = (row["latest"], row["level"], row["taken_at"], row["taken"])
        assert len(row["taken"]) <= 66
    model.check()


async def test_a_claim_starts_as_many_as_there_are_tokens_and_the_others_wait_in_their_line(database: Database) -> None:
    async with database.connection() as connection:
        await limits.save(connection, rate(3, 60))
        refs = [await put(connection) for _ in range(5)]
    first = await claim(database, refs)
    assert [job.ref for job in first.claimed] == refs[:3]
    assert first.returned == {"rate": refs[3:]}
    async with database.connection() as connection:
        row = await live(connection, refs[4].id)
        assert (row["state"], row["reason"], row["fence"]) == ("blocked", "rate", 8)
        assert row["line"] == '["", "", {}]'


async def test_claims_side_by_side_take_no_more_than_the_tokens_that_there_are(database: Database) -> None:
    async with database.connection() as connection:
        await limits.save(connection, rate(7, 60))
        refs = [await put(connection) for _ in range(40)]
    answers = await asyncio.gather(*(claim(database, refs[start::8]) for start in range(8)))
    assert sum(len(answer.claimed) for answer in answers) == 7


async def test_a_claim_that_is_asked_again_takes_no_second_token(database: Database) -> None:
    async with database.connection() as connection:
        await limits.save(connection, rate(2, 60))
        one, other = await put(connection), await put(connection)
    claim_id = uuid4()
    started = []
    for _ in range(3):
        answer = await claim(database, [one], claim_id)
        assert len(answer.claimed) == 1
        async with database.connection() as connection:
            started.append((await live(connection, one.id))["started_at"])
    assert len(set(started)) == 1
    assert len((await claim(database, [other])).claimed) == 1


async def test_each_key_has_its_own_tokens_and_a_weighted_job_takes_many(database: Database) -> None:
    async with database.connection() as connection:
        await limits.save(connection, rate(5, 60, per="customer.id", cost="units"))
        heavy = await put(connection, {"customer": {"id": 1}, "units": 4})
        light = [await put(connection, {"customer": {"id": 1}}) for _ in range(2)]
        other = await put(connection, {"customer": {"id": 2}, "units": 5})
        absurd = await put(connection, {"customer": {"id": 3}, "units": 1000})
        wrong = [await put(connection, {"customer": {"id": 4}, "units": units}) for units in ("x", -3, None, [7], 1.5)]
    answer = await claim(database, [heavy, *light, other, absurd, *wrong])
    assert {job.ref for job in answer.claimed} == {heavy, light[0], other, absurd, *wrong}
    assert answer.returned == {"rate": [light[1]]}


async def test_a_job_under_several_rates_takes_from_all_or_none(database: Database) -> None:
    async with database.connection() as connection:
        await limits.save(connection, rate(10, 60))
        await limits.save(connection, Limit("t", Kind.RATE, 1, tasks=("t",), period_seconds=60, burst=1, per="k"))
        refs = [await put(connection, {"k": key}) for key in ("a", "a", "a", "b")]
        answer = await claim(database, refs)
        left = await connection.fetchval("SELECT sum(n) FROM mainspring.rates, unnest(taken) AS n WHERE key = ''")
    assert [job.ref for job in answer.claimed] == [refs[0], refs[3]]
    assert left == 2


async def test_time_does_not_go_back_in_a_rate(database: Database) -> None:
    async with database.connection() as connection:
        await limits.save(connection, rate(2, 1))
        refs = [await put(connection) for _ in range(4)]
        assert len((await claim(database, refs[:2])).claimed) == 2
        # As if the clock had been an hour ahead when these tokens were taken.
        await connection.execute(
            "UPDATE mainspring.rates SET latest = latest + interval '1 hour',"
            " taken_at = ARRAY(SELECT at + interval '1 hour' FROM unnest(taken_at) AS at)"
        )
        assert (await claim(database, refs[2:])).claimed == []


async def test_what_a_job_starts_at_is_when_its_token_was_taken(database: Database) -> None:
    async with database.connection() as connection:
        await limits.save(connection, rate(5, 60))
        refs = [await put(connection) for _ in range(5)]
        await claim(database, refs)
        instants = await connection.fetch(
            "SELECT DISTINCT started_at FROM mainspring.live_jobs WHERE state = 'running'"
        )
        taken = await connection.fetchval("SELECT taken_at[1] FROM mainspring.rates")
    assert [row["started_at"] for row in instants] == [taken]


async def test_rates_of_keys_that_are_full_again_are_forgotten(database: Database) -> None:
    async with database.connection() as connection:
        await limits.save(connection, rate(5, 60, per="k"))
        await claim(database, [await put(connection, {"k": "old"}), await put(connection, {"k": "new"})])
        await connection.execute("UPDATE mainspring.rates SET latest = latest - interval '2 minutes' WHERE key = 'old'")
        await limits.forget_rates(connection)
        assert [row["key"] for row in await connection.fetch("SELECT key FROM mainspring.rates")] == ["new"]
        assert await limits.delete(connection, "r")
        assert await connection.fetchval("SELECT count(*) FROM mainspring.rates") == 0


@pytest.fixture
def statements(database_url: str) -> Any:
    """Run one statement and return its row, without a loop of the test's own."""
    loop = asyncio.new_event_loop()
    connection = loop.run_until_complete(asyncpg.connect(database_url))
    yield lambda query, *arguments: loop.run_until_complete(connection.fetchrow(query, *arguments))
    loop.run_until_complete(connection.close())
    loop.close()


@pytest.mark.parametrize(
    ("most", "burst", "taken", "room", "at_least", "at_most"),
    [
        # All ten are there: the eleventh comes when the first of them is a period old.
        (10, 10, 0, 10, 60, 60),
        # Four were taken just now: the seventh comes when they are a period old.
        (10, 10, 4, 6, 59, 60),
        # None is there: the next one comes then too.
        (10, 10, 10, 0, 59, 60),
        # A bucket fills by the rate; of one that nobody has taken from nothing is known.
        (10, 40, 5, 35, 5.9, 6),
        (10, 2, 1, 1, 5.9, 6),
        (10, 40, 0, 40, 0, 0),
    ],
)
async def test_a_rate_knows_when_it_has_one_token_more_than_now(
    database: Database, most: int, burst: int, taken: int, room: int, at_least: float, at_most: float
) -> None:
    async with database.connection() as connection:
        await limits.save(connection, rate(most, 60.0, burst=burst))
        refs = [await put(connection) for _ in range(taken)]
    if refs:
        assert len((await claim(database, refs)).claimed) == taken
    async with database.connection() as connection:
        line = Line(NO_LINE, "q", "t")
        found = await limits.rooms(connection, await limits.of_queue(connection, "q"), [line])
    ((told, free_in, next_in),) = found.rates.values()
    assert told == room
    assert at_least <= next_in <= at_most
    assert (free_in == 0) == (room > 0)
