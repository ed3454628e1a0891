"""Rows put straight into a state, for tests of single statements."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID, uuid4

from mainspring.domain.retry import DEFAULT
from mainspring.domain.states import State
from mainspring.domain.turns import Turns
from mainspring.store import jobs, lines, release
from mainspring.store.pool import Conn
from mainspring.store.release import Bounds, Released

FINISHED = {State.SUCCEEDED, State.CANCELLED}


async def put_job(connection: Conn, state: State, **columns: Any) -> UUID:
    """A job in ``state``, as if it had come there; returns its id."""
    job_id = columns.pop("id", None) or jobs.new_id()
    row: dict[str, Any] = {
        "id": job_id,
        "queue": "q",
        "task": "t",
        "state": state.value,
        "priority": 5,
        "fence": 7,
        "attempt": 1,
        "attempts_used": 1,
        "max_attempts": 4,
        "timeout_seconds": 60.0,
    }
    row |= _of_state(state) | columns
    table = "finished_jobs" if state in FINISHED else "live_jobs"
    await _insert(connection, table, row)
    await connection.execute(
        "INSERT INTO mainspring.queues (name) SELECT $1::text"
        " WHERE NOT EXISTS (SELECT FROM mainspring.queues WHERE name = $1)",
        row["queue"],
    )
    await connection.execute(
        "INSERT INTO mainspring.job_details (id, payload, retry, run_at) VALUES ($1, '{}', $2, clock_timestamp())",
        *(job_id, json.dumps(DEFAULT.as_json())),
    )
    return job_id


def _of_state(state: State) -> dict[str, Any]:
    match state:
        case State.RUNNING:
            return {"claim_id": uuid4(), "worker": uuid4()}
        case State.DEAD:
            return {"reason": "exhausted"}
    return {}


async def _insert(connection: Conn, table: str, row: dict[str, Any]) -> None:
    instants = {"due_at": "clock_timestamp() - interval '1 second'"}
    if row["state"] == State.RUNNING:
        instants |= {
            "lease_until": "clock_timestamp() + interval '1 minute'",
            "started_at": "clock_timestamp()",
        }
    if row["state"] in {State.ENQUEUED, State.ADMITTED}:
        instants["released_at"] = "clock_timestamp()"
    if row["state"] in {State.DEAD, *FINISHED}:
        instants["finished_at"] = "clock_timestamp()"
    instants = {name: sql for name, sql in instants.items() if name not in row}
    names = ", ".join([*row, *instants])
    values = ", ".join([*(f"${index}" for index in range(1, len(row) + 1)), *instants.values()])
    await connection.execute(f"INSERT INTO mainspring.{table} ({names}) VALUES ({values})", *row.values())


async def job(connection: Conn, job_id: UUID) -> Any:
    """The job as the view shows it."""
    return await jobs.get(connection, job_id)


async def live(connection: Conn, job_id: UUID) -> Any:
    """The job's hot row, or None."""
    return await connection.fetchrow("SELECT * FROM mainspring.live_jobs WHERE id = $1", job_id)


async def release_jobs(connection: Conn, queue: str, bounds: Bounds | None = None, **options: Any) -> Released:
    """What a scheduler does with a queue that it knows nothing of."""
    bounds = bounds or Bounds()
    released = await release.release(connection, queue, bounds, **options)
    if not released.has_lines:
        return released
    async with connection.transaction():
        return await lines.serve(connection, queue, bounds, Turns(), **options)
