"""/v1/schedules beyond one of them: a whole file, all that fit a filter, backfills."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any
from uuid import UUID

from fastapi import APIRouter, Request, Response

from mainspring.domain.errors import InvalidInput
from mainspring.runtime import backfill, schedule_apply, schedule_changes
from mainspring.runtime.replay import once
from mainspring.runtime.schedule_apply import WantedSchedule
from mainspring.store import backfills
from mainspring.store.pool import Conn
from mainspring_services.api.access import OPERATES, READS
from mainspring_services.api.body import parsed, read_json
from mainspring_services.api.openapi import BODY_PROBLEMS, KEY, REPLAYED, USUAL_PROBLEMS, answers, replayed, takes
from mainspring_services.api.schemas.common import AppliedOut, Limit, Name
from mainspring_services.api.schemas.schedule_changes import (
    BackfillIn,
    BackfillOut,
    BackfillPage,
    BulkOut,
    SchedulesIn,
    WhichIn,
)
from mainspring_services.api.schemas.schedules import NamedScheduleIn, ScheduleIn
from mainspring_services.api.state import ApiState, State

router = APIRouter(prefix="/v1/schedules", tags=["schedules"], responses=USUAL_PROBLEMS)
_WEEK = {"start_at": "2026-03-01T00:00:00Z", "end_at": "2026-03-08T00:00:00Z"}
_FILE = {"schedules": [{"name": "daily-report", "task": "reports.daily", "cron": "0 6 * * *"}], "dry_run": True}


@router.post(
    "/apply",
    response_model=AppliedOut,
    responses={**answers(409), **BODY_PROBLEMS},
    openapi_extra=takes(SchedulesIn, _FILE),
    dependencies=[OPERATES],
)
async def apply(request: Request, state: State) -> dict[str, Any]:
    """Make the schedules those of a file, in one transaction; with `dry_run` only say what would change."""
    given: SchedulesIn = parsed(SchedulesIn, await read_json(request))
    wanted = [_wanted(index, one) for index, one in enumerate(given.schedules)]
    applied = await state.database.run_in_transaction(
        lambda connection: schedule_apply.apply(
            connection, wanted, prune=given.prune, dry_run=given.dry_run, digest=given.digest
        )
    )
    return asdict(applied) | {"dry_run": given.dry_run, "digest": applied.digest()}


def _wanted(index: int, given: NamedScheduleIn) -> WantedSchedule:
    try:
        definition = ScheduleIn(**given.model_dump(exclude={"name"})).definition(given.name)
        return WantedSchedule(definition, "paused" in given.model_fields_set)
    except InvalidInput as error:
        raise InvalidInput(f"schedules.{index}.{error.field}", error.message) from error


@router.post(
    "/pause",
    response_model=BulkOut,
    responses=BODY_PROBLEMS,
    openapi_extra=takes(WhichIn, {"tag": "nightly", "note": "the database moves"}),
    dependencies=[OPERATES],
)
async def pause_all(request: Request, state: State) -> dict[str, Any]:
    """Pause every schedule that fits."""
    return await _set_all_paused(request, state, paused=True)


@router.post(
    "/resume",
    response_model=BulkOut,
    responses=BODY_PROBLEMS,
    openapi_extra=takes(WhichIn, {"tag": "nightly"}),
    dependencies=[OPERATES],
)
async def resume_all(request: Request, state: State) -> dict[str, Any]:
    """Resume every schedule that fits: each waits for its first nominal time after now."""
    return await _set_all_paused(request, state, paused=False)


async def _set_all_paused(request: Request, state: ApiState, *, paused: bool) -> dict[str, Any]:
    given: WhichIn = parsed(WhichIn, await read_json(request))
    changed, refused = await state.database.run_in_transaction(
        lambda connection: schedule_changes.set_all_paused(connection, given.which(), paused, given.note)
    )
    return {"changed": changed, "refused": refused}


@router.post(
    "/{name}/backfill",
    status_code=201,
    response_class=Response,
    responses={
        201: {"model": BackfillOut, "description": "Its jobs are made from now on.", "headers": REPLAYED},
        **answers(404, 409),
        **BODY_PROBLEMS,
    },
    openapi_extra={**takes(BackfillIn, _WEEK), "parameters": [KEY]},
    dependencies=[OPERATES],
)
async def start_backfill(name: Name, request: Request, state: State) -> Response:
    """Make jobs of past nominal times that have none, beside the live runs and never in their way."""
    given: BackfillIn = parsed(BackfillIn, await read_json(request))

    async def start(connection: Conn) -> str:
        made = await backfill.start(connection, name, given.start_at, given.end_at, given.parallel)
        return BackfillOut(**made._asdict()).model_dump_json()

    key = request.headers.get("idempotency-key")
    asked = f"{name} {given.model_dump_json()}"
    answer, is_replayed = await state.database.run_in_transaction(
        lambda connection: once(connection, "backfill", key, asked, lambda: start(connection))
    )
    return Response(answer, 201, replayed(is_replayed), media_type="application/json")


@router.get("/{name}/backfills", response_model=BackfillPage, dependencies=[READS])
async def list_backfills(name: Name, state: State, limit: Limit = 100) -> dict[str, Any]:
    """Its backfills, the latest first."""
    found = await state.database.run(lambda connection: backfills.of(connection, name, limit))
    return {"items": [one._asdict() for one in found]}


@router.post(
    "/{name}/backfills/{id}/cancel",
    status_code=204,
    response_class=Response,
    responses=answers(404),
    dependencies=[OPERATES],
)
async def cancel_backfill(name: Name, id: UUID, state: State) -> Response:
    """Make no more jobs of a backfill; those that are made stay."""
    await state.database.run_in_transaction(lambda connection: backfill.cancel(connection, name, id))
    return Response(status_code=204)
