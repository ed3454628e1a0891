"""/v1/workers, /v1/stats, /v1/dead-letters."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any
from uuid import UUID

from fastapi import APIRouter, Query

from mainspring.domain.errors import InvalidInput, NotFound
from mainspring.store import dead_letters, fleet, jobs
from mainspring_services.api.state import State

router = APIRouter(prefix="/v1")


@router.get("/workers", tags=["workers"])
async def workers(state: State) -> dict[str, Any]:
    """The workers that live."""
    return {"items": [_shown(row) for row in await state.database.run(fleet.workers)], "next": None}


@router.get("/stats", tags=["stats"])
async def stats(state: State) -> dict[str, Any]:
    """Live jobs by queue and state."""
    return {"items": [_shown(row) for row in await state.database.run(jobs.counts)]}


@router.get("/dead-letters", tags=["dead letters"])
async def list_dead_letters(
    state: State, cursor: str | None = None, limit: int = Query(default=100, ge=1, le=1000)
) -> dict[str, Any]:
    """Dead letters, the newest first."""
    before = _read_cursor(cursor)
    rows = await state.database.run(lambda connection: dead_letters.list_newest(connection, before, limit))
    last = rows[-1] if len(rows) == limit else None
    return {
        "items": [_shown(row) for row in rows],
        "next": f"{last['died_at'].isoformat()}_{last['id']}" if last else None,
    }


@router.post("/dead-letters/{job_id}/redrive", tags=["dead letters"])
async def redrive(job_id: UUID, state: State) -> dict[str, str]:
    """Put a dead job back to work, with a fresh attempt budget."""
    if not await state.database.run_in_transaction(lambda connection: jobs.redrive(connection, job_id, "api")):
        raise NotFound(f"no dead letter of a job {job_id}")
    state.wake.call()
    return {"id": str(job_id), "state": "scheduled"}


def _read_cursor(cursor: str | None) -> tuple[datetime, UUID] | None:
    if cursor is None:
        return None
    try:
        instant, letter_id = cursor.split("_")
        before = datetime.fromisoformat(instant), UUID(letter_id)
    except ValueError:
        raise InvalidInput("cursor", "is none that this API has given") from None
    if before[0].tzinfo is None:
        raise InvalidInput("cursor", "is none that this API has given")
    return before


def _shown(row: Any) -> dict[str, Any]:
    return {name: _value(name, value) for name, value in dict(row).items()}


def _value(name: str, value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    return json.loads(value) if name == "error" and value is not None else value
