"""/v1/retention."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request

from mainspring.store import retention
from mainspring_services.api.access import OPERATES, READS
from mainspring_services.api.body import parsed, read_json
from mainspring_services.api.openapi import BODY_PROBLEMS, USUAL_PROBLEMS, takes
from mainspring_services.api.schemas.retention import RetentionIn, RetentionOut
from mainspring_services.api.state import State

router = APIRouter(prefix="/v1/retention", tags=["retention"], responses=USUAL_PROBLEMS)


@router.get("", response_model=RetentionOut, dependencies=[READS])
async def show(state: State) -> dict[str, Any]:
    """How long ended jobs, results, history and keys are kept, unless their queue says otherwise."""
    return asdict(await state.database.run(retention.get))


@router.put(
    "",
    response_model=RetentionOut,
    responses=BODY_PROBLEMS,
    openapi_extra=takes(RetentionIn, {"succeeded_days": 14, "cancelled_days": 30, "results_days": 1}),
    dependencies=[OPERATES],
)
async def save(request: Request, state: State) -> dict[str, Any]:
    """Keep for so long from now on; what is older goes within minutes."""
    given: RetentionIn = parsed(RetentionIn, await read_json(request))
    wanted = given.retention()
    await state.database.run(lambda connection: retention.save(connection, wanted))
    return asdict(wanted)
