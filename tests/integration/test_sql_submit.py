"""``mainspring.submit`` from plain SQL: the same job as from the api, the same refusals, and no right on any table."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from mainspring.domain.job import DEEPEST_PAYLOAD, MOST_PAYLOAD_BYTES, MOST_TAGS, JobRequest
from mainspring.domain.retry import DEFAULT
from mainspring.store import jobs, queues
from mainspring.store.pool import Conn, Database

from .rows import job
from .system import System

SUBMIT = "SELECT mainspring.submit('t', $1::jsonb)"


async def count(connection: Conn) -> int:
    return int(await connection.fetchval("SELECT count(*) FROM mainspring.live_jobs"))


async def test_it_makes_the_job_that_the_api_makes(database: Database) -> None:
    async with database.connection() as connection:
        (ours,) = await jobs.insert(connection, [JobRequest("t", '{"a": 1}', tags=("x",), priority=2)])
        theirs = await connection.fetchval(
            "SELECT mainspring.submit('t', '{\"a\": 1}', priority => 2, tags => ARRAY['x'])"
        )
        rows = [dict(await job(connection, one)) for one in (ours.id, theirs)]
        retry = [
            json.loads(await connection.fetchval("SELECT retry FROM mainspring.job_details WHERE id = $1", one))
            for one in (ours.id, theirs)
        ]
    differing = {name for name in rows[0] if rows[0][name] != rows[1][name]}
    assert differing == {"id", "idempotency_key", "run_at", "due_at", "created_at"}
    assert retry == [DEFAULT.as_json()] * 2
    assert (theirs.version, theirs.variant) == (7, ours.id.variant)
    assert abs(rows[0]["created_at"] - rows[1]["created_at"]) < timedelta(seconds=5)
    assert ours.id < theirs


async def test_ids_are_in_the_order_of_time_and_fit_their_partition(database: Database) -> None:
    async with database.connection() as connection:
        ids = []
        for _ in range(5):
            ids.append(await connection.fetchval("SELECT mainspring.submit('t')"))
            await asyncio.sleep(0.002)
        stray = await connection.fetchval("SELECT count(*) FROM mainspring.job_details_default")
    assert ids == sorted(ids)
    assert stray == 0


async def test_what_the_catalogue_says_holds(database: Database) -> None:
    async with database.connection() as connection:
        await connection.execute(
            "INSERT INTO mainspring.tasks (name, queue, timeout_seconds, retry, payload_schema, version)"
            " VALUES ('billing.charge', 'billing', 30, '{\"max_attempts\": 9}', '{}', '1')"
        )
        id_ = await connection.fetchval("SELECT mainspring.submit('billing.charge')")
        row = await job(connection, id_)
    assert (row["queue"], row["timeout_seconds"], row["max_attempts"]) == ("billing", 30, 9)


async def test_it_exists_if_and_only_if_the_transaction_commits(database: Database) -> None:
    async with database.connection() as connection:
        with pytest.raises(ZeroDivisionError):
            async with connection.transaction():
                await connection.fetchval("SELECT mainspring.submit('t')")
                raise ZeroDivisionError
        assert await count(connection) == 0


async def test_a_trigger_submits(database: Database) -> None:
    async with database.connection() as connection:
        await connection.execute(
            """
            CREATE TABLE orders (number int);
            CREATE FUNCTION on_order() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                PERFORM mainspring.submit('orders.ship', jsonb_build_object('number', NEW.number), delay => '1 hour');
                RETURN NEW;
            END $$;
            CREATE TRIGGER submits AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION on_order();
            INSERT INTO orders VALUES (42);
            """
        )
        payload = await connection.fetchval("SELECT payload FROM mainspring.jobs WHERE task = 'orders.ship'")
    assert json.loads(payload) == {"number": 42}


async def test_a_key_gives_the_first_job_and_refuses_another_request(database: Database) -> None:
    async with database.connection() as connection:
        keyed = "SELECT mainspring.submit('t', $1::jsonb, idempotency_key => 'k')"
        first, again = [await connection.fetchval(keyed, '{"a": 1, "b": 2}') for _ in range(2)]
        assert (first == again, await count(connection)) == (True, 1)
        with pytest.raises(asyncpg.InvalidParameterValueError, match="idempotency_key: was used with another request"):
            await connection.fetchval(keyed, '{"a": 2}')
        assert await count(connection) == 1


async def test_many_at_once_with_one_key_are_one_job(database: Database) -> None:
    async def one() -> Any:
        async with database.connection() as connection:
            return await connection.fetchval("SELECT mainspring.submit('t', idempotency_key => 'k')")

    assert len(set(await asyncio.gather(*(one() for _ in range(15))))) == 1
    async with database.connection() as connection:
        assert await count(connection) == 1


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ("NULL", "task"),
        ("'A'", "task"),
        ("'a/b'", "task"),
        ("repeat('t', 64)", "task"),
        ("'t', NULL", "payload"),
        ("'t', '[]'", "payload"),
        ("'t', '1'", "payload"),
        ("'t', '{\"a\": 1e308}'", "payload"),
        ("'t', '{\"a\": {\"b\": [-1e5000]}}'", "payload"),
        (f"'t', jsonb_build_object('a', repeat('x', {MOST_PAYLOAD_BYTES}))", "payload"),
        ("'t', ('" + '{"a":' * (DEEPEST_PAYLOAD + 1) + "1" + "}" * (DEEPEST_PAYLOAD + 1) + "')::jsonb", "payload"),
        ("'t', ('{\"a\":" + "[" * DEEPEST_PAYLOAD + "1" + "]" * DEEPEST_PAYLOAD + "}')::jsonb", "payload"),
        ("'t', queue => 'Q'", "queue"),
        ("'t', queue => ''", "queue"),
        ("'t', priority => 10", "priority"),
        ("'t', priority => -1", "priority"),
        ("'t', run_at => 'infinity'", "run_at"),
        ("'t', run_at => '1969-12-31 23:59:59+00'", "run_at"),
        ("'t', run_at => now(), delay => '1 s'", "delay"),
        ("'t', delay => '-1 s'", "delay"),
        ("'t', delay => '11 years'", "delay"),
        ("'t', timeout_seconds => 0", "timeout_seconds"),
        ("'t', timeout_seconds => 'NaN'", "timeout_seconds"),
        ("'t', idempotency_key => ''", "idempotency_key"),
        ("'t', idempotency_key => E'a\\nb'", "idempotency_key"),
        ("'t', idempotency_key => repeat('k', 256)", "idempotency_key"),
        ("'t', tags => ARRAY['']", "tags"),
        ("'t', tags => ARRAY[NULL]", "tags"),
        (f"'t', tags => array_fill('x'::text, ARRAY[{MOST_TAGS + 1}])", "tags"),
        ("'t', expires_at => '-infinity'", "expires_at"),
    ],
)
async def test_bad_input_names_its_field_and_stores_nothing(database: Database, arguments: str, field: str) -> None:
    async with database.connection() as connection:
        with pytest.raises(asyncpg.InvalidParameterValueError, match=f"^{field}: "):
            await connection.fetchval(f"SELECT mainspring.submit({arguments})")
        assert await count(connection) == 0


async def test_what_is_at_the_edge_is_accepted_and_can_be_read(database: Database) -> None:
    deepest = '{"a":' * DEEPEST_PAYLOAD + "1" + "}" * DEEPEST_PAYLOAD
    async with database.connection() as connection:
        for payload in (deepest, '{"a": 9.9e307}', '{"a": -9.9e307}', '{"a": 1e-400}', '{"a": ""}'):
            id_ = await connection.fetchval(SUBMIT, payload)
            json.loads((await job(connection, id_))["payload"])


async def test_the_role_may_submit_and_nothing_else(database: Database) -> None:
    async with database.connection() as connection, connection.transaction():
        await connection.execute("SET LOCAL ROLE mainspring_submit")
        await connection.fetchval("SELECT mainspring.submit('t')")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with connection.transaction():
                await connection.fetchval("SELECT count(*) FROM mainspring.jobs")
        await connection.execute("SET LOCAL ROLE mainspring_read")
        assert await connection.fetchval("SELECT count(*) FROM mainspring.jobs") == 1
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with connection.transaction():
                await connection.fetchval("SELECT mainspring.submit('t')")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute("DELETE FROM mainspring.events")


async def test_a_first_queue_is_made(database: Database) -> None:
    async with database.connection() as connection:
        await connection.fetchval("SELECT mainspring.submit('t', queue => 'brand-new')")
        await queues.adopt_queues(connection)
        assert "brand-new" in [one.name for one in await queues.all_queues(connection)]


def test_a_job_from_psql_runs_like_any_other(system: System) -> None:
    system.worker()
    system.ready()
    job_id = system.query("SELECT mainspring.submit('fleet.nap', '{\"seconds\": 0}')")
    assert system.final(job_id)["state"] == "succeeded"
