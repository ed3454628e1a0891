"""/v1/workers and /v1/stats."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from mainspring.store import fleet, jobs, server
from mainspring_services.api.access import READS
from mainspring_services.api.openapi import USUAL_PROBLEMS
from mainspring_services.api.schemas.fleet import Stats, Workers
from mainspring_services.api.state import State

router = APIRouter(prefix="/v1", responses=USUAL_PROBLEMS)


@router.get("/workers", tags=["workers"], response_model=Workers, dependencies=[READS])
async def workers(state: State) -> dict[str, Any]:
    """The workers that live."""
    return {"items": [dict(row) for row in await state.database.run(fleet.workers)]}


@router.get("/stats", tags=["stats"], response_model=Stats, dependencies=[READS])
async def stats(state: State) -> dict[str, Any]:
    """Live jobs by queue and state, and who leads."""
    leader = await state.database.run(server.leader)
    counts = await state.database.run(jobs.counts)
    return {"items": [dict(row) for row in counts], "leader": dict(leader) if leader else None}
