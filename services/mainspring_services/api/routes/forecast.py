"""/v1/forecast."""

from __future__ import annotations

from typing import Annotated, Any, cast

from fastapi import APIRouter, Depends, Query, Request

from mainspring.runtime.forecast import MOST_HOURS, Forecasts, apply
from mainspring_services.api.access import OPERATES, READS
from mainspring_services.api.body import parsed, read_json
from mainspring_services.api.openapi import BODY_PROBLEMS, USUAL_PROBLEMS, answers, takes
from mainspring_services.api.schemas.forecast import (
    Applied,
    Forecast,
    JittersIn,
    Suggestion,
    changed_out,
    forecast_out,
    suggestion_out,
)
from mainspring_services.api.state import State

router = APIRouter(prefix="/v1/forecast", tags=["forecast"], responses=USUAL_PROBLEMS)
Hours = Annotated[int, Query(ge=1, le=MOST_HOURS, description="How far to look; beyond 24, buckets are of 10 minutes.")]


async def _forecasts(request: Request) -> Forecasts:
    return cast(Forecasts, request.app.state.forecasts)


Kept = Annotated[Forecasts, Depends(_forecasts)]


@router.get("", response_model=Forecast, dependencies=[READS])
async def look_ahead(state: State, kept: Kept, hours: Hours = 24) -> dict[str, Any]:
    """Fires and slots needed over the next hours, and which schedules make the peaks; up to some seconds old."""
    return forecast_out(await kept.forecast(state.database, hours))


@router.get("/suggestion", response_model=Suggestion, dependencies=[READS])
async def suggest(state: State, kept: Kept, hours: Hours = 24) -> dict[str, Any]:
    """Jitters for the schedules in the peaks over the slots, or else in the highest peaks; nothing is changed."""
    return suggestion_out(await kept.suggestion(state.database, hours))


@router.post(
    "/suggestion/apply",
    response_model=Applied,
    responses={**answers(404), **BODY_PROBLEMS},
    openapi_extra=takes(JittersIn, {"schedules": [{"name": "daily-report", "jitter_seconds": 600}]}),
    dependencies=[OPERATES],
)
async def apply_suggestion(request: Request, state: State, kept: Kept) -> dict[str, Any]:
    """Give schedules these jitters, all or, where one is unknown, none."""
    jitters = parsed(JittersIn, await read_json(request)).jitters()
    changes = await state.database.run_in_transaction(lambda connection: apply(connection, jitters))
    kept.forget()
    return {"changed": [changed_out(one) for one in changes]}
