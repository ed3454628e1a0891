"""Every statement is one that Postgres accepts; the hot ones keep their plans whatever the statistics say."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mainspring.store import sql
from mainspring.store.pool import Conn, Database

ROWS = 100_000
HOT = [
    "jobs.insert",
    "release.next_due",
    "release.release",
    "claims.claim",
    "leases.extend",
    "leases.look",
    "leases.lock_expired",
    "reconcile.reschedule_retries",
    "reconcile.take_unclaimed",
    "reconcile.bury_overdue",
    "fires.active_jobs",
    "settle.succeed",
    "settle.fail",
    "admission.lock_candidates",
    "attempts.recorded",
]


async def test_every_statement_prepares(database: Database) -> None:
    async with database.connection() as connection:
        for name, query in sql.load_all().items():
            statement = await connection.prepare(query)
            assert statement is not None, name


async def _seed(connection: Conn) -> None:
    """Statistics are taken while no job runs; then the table fills, and they are stale."""
    await connection.execute("ALTER TABLE mainspring.live_jobs SET (autovacuum_enabled = false)")
    await connection.execute("ALTER TABLE mainspring.attempts_default SET (autovacuum_enabled = false)")
    await connection.execute("ANALYZE mainspring.live_jobs")
    await connection.execute(
        """
        INSERT INTO mainspring.live_jobs (
            id, queue, task, state, priority, due_at, max_attempts, timeout_seconds, attempt, attempts_used,
            claim_id, lease_until, released_at
        )
        SELECT
            gen_random_uuid(), 'q', 't', state, n % 10, clock_timestamp(), 4, 60, 1, 1,
            CASE WHEN state = 'running' THEN gen_random_uuid() END,
            CASE WHEN state = 'running' THEN clock_timestamp() END,
            clock_timestamp()
        FROM (
            SELECT n, CASE WHEN n % 10 < 6 THEN 'scheduled' WHEN n % 10 < 8 THEN 'enqueued' ELSE 'running' END AS state
            FROM generate_series(1, $1::integer) AS n
        ) AS numbered
        """,
        ROWS,
    )


def _nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(node for child in plan.get("Plans", []) for node in _nodes(child))]


@pytest.mark.parametrize("statistics", ["stale", "fresh"])
async def test_a_hot_statement_never_scans_the_live_jobs(database: Database, statistics: str) -> None:
    async with database.connection() as connection:
        await _seed(connection)
        if statistics == "fresh":
            await connection.execute("ANALYZE mainspring.live_jobs")
        for name in HOT:
            assert not await _scans(connection, sql.load_all()[name]), f"{name} under {statistics} statistics"


async def test_what_a_queue_has_in_the_broker_is_counted_by_an_index(database: Database) -> None:
    """The release's function counts through this view, whose plan can be seen from outside."""
    async with database.connection() as connection:
        await _seed(connection)
        assert not await _scans(connection, "SELECT * FROM mainspring.queue_usage WHERE queue = $1::text")


async def test_the_look_for_lost_messages_passes_over_what_was_sent_just_now(database: Database) -> None:
    async with database.connection() as connection:
        await _seed(connection)
        (scan,) = (
            node
            for node in await _plan(connection, sql.load_all()["reconcile.take_unclaimed"])
            if node.get("Index Name") == "live_jobs_in_broker"
        )
        assert "released_at < " in scan["Index Cond"]


async def _scans(connection: Conn, query: str) -> list[str]:
    nodes = await _plan(connection, query)
    return [node["Node Type"] for node in nodes if _walks_all_live_jobs(node)]


async def _plan(connection: Conn, query: str) -> list[dict[str, Any]]:
    statement = await connection.prepare(query)
    count = len(statement.get_parameters())
    arguments = f"({', '.join(['NULL'] * count)})" if count else ""
    await connection.execute(f"PREPARE hot AS {query}")
    plan = json.loads(await connection.fetchval(f"EXPLAIN (FORMAT json) EXECUTE hot {arguments}"))
    await connection.execute("DEALLOCATE hot")
    return _nodes(plan[0]["Plan"])


def _walks_all_live_jobs(node: dict[str, Any]) -> bool:
    """A scan of the table, or of its whole primary key, which an ORDER BY id with a LIMIT tempts to."""
    if node.get("Relation Name") != "live_jobs":
        return False
    is_whole_key = node.get("Index Name") == "live_jobs_pkey" and "Index Cond" not in node
    return node["Node Type"] == "Seq Scan" or is_whole_key
