"""/v1/workers and /v1/stats."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from mainspring.store import fleet, jobs
from mainspring_services.api.openapi import answers
from mainspring_services.api.schemas.fleet import Stats, Workers
from mainspring_services.api.state import State

router = APIRouter(prefix="/v1", responses=answers(503))


@router.get("/workers", tags=["workers"], response_model=Workers)
async def workers(state: State) -> dict[str, Any]:
    """The workers that live."""
    return {"items": [dict(row) for row in await state.database.run(fleet.workers)]}


@router.get("/stats", tags=["stats"], response_model=Stats)
async def stats(state: State) -> dict[str, Any]:
    """Live jobs by queue and state."""
    return {"items": [dict(row) for row in await state.database.run(jobs.counts)]}
