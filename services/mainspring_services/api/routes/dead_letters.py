"""/v1/dead-letters."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response

from mainspring.domain.errors import Conflict, InvalidInput, NotFound
from mainspring.domain.job import check_instant
from mainspring.runtime.job_spans import traced
from mainspring.store import dead_letters, jobs
from mainspring.store.pool import Conn
from mainspring.telemetry.tracing import Operation
from mainspring_services.api.access import READS, Operator
from mainspring_services.api.body import parsed, read_json
from mainspring_services.api.openapi import BODY_PROBLEMS, USUAL_PROBLEMS, answers, takes
from mainspring_services.api.routes.jobs import show as show_job
from mainspring_services.api.schemas.common import Limit, NameText
from mainspring_services.api.schemas.dead_letters import (
    DeadLetterGroups,
    DeadLetterPage,
    DeadLetterQuery,
    DiscardIn,
    RedriveIn,
    Redriven,
    letter_out,
)
from mainspring_services.api.schemas.jobs import JobWithHistory
from mainspring_services.api.state import State

router = APIRouter(prefix="/v1/dead-letters", tags=["dead letters"], responses=USUAL_PROBLEMS)


@router.get("", response_model=DeadLetterPage, dependencies=[READS])
async def list_newest(state: State, asked: Annotated[DeadLetterQuery, Query()]) -> dict[str, Any]:
    """Dead letters that pass all filters, the newest first."""
    before, wanted, limit = _read_cursor(asked.cursor), asked.filter(), asked.limit
    rows = await state.database.run(lambda connection: dead_letters.list_newest(connection, before, limit, wanted))
    last = rows[-1] if len(rows) == limit else None
    return {
        "items": [letter_out(row) for row in rows],
        "next": f"{last['died_at'].isoformat()}_{last['id']}" if last else None,
    }


@router.get("/groups", response_model=DeadLetterGroups, dependencies=[READS])
async def list_groups(
    state: State, queue: NameText | None = None, task: NameText | None = None, limit: Limit = 100
) -> dict[str, Any]:
    """Dead letters that died alike, as groups, the largest first."""
    rows = await state.database.run(lambda connection: dead_letters.groups(connection, queue, task, limit))
    return {"items": [letter_out(row) for row in rows]}


@router.post(
    "/redrive",
    response_model=Redriven,
    responses=BODY_PROBLEMS,
    openapi_extra=takes(RedriveIn, {"fingerprint": "TimeoutError:billing.charge", "limit": 100}),
)
async def redrive_many(request: Request, state: State, author: Operator) -> dict[str, int]:
    """Put dead jobs back to work, each with a fresh attempt budget. A second call finds those that are left."""
    asked: RedriveIn = parsed(RedriveIn, await read_json(request))
    wanted = asked.filter()

    ids: list[UUID] = []

    async def work(connection: Conn) -> int:
        ids[:] = await dead_letters.jobs_among(connection, wanted, asked.limit)
        return len(await jobs.redrive_dead(connection, ids, author))

    async with traced(state.database, Operation.REDRIVE, wanted.queue, ids):
        redriven = await state.database.run_in_transaction(work)
    state.wake.call()
    return {"redriven": redriven}


@router.post("/{letter_id}/redrive", response_model=JobWithHistory, responses=answers(404, 409))
async def redrive(letter_id: UUID, state: State, author: Operator) -> dict[str, Any]:
    """Put a dead job back to work, with a fresh attempt budget; 409 for a message, behind which there is no job."""

    async def work(connection: Conn) -> None:
        if await jobs.redrive_dead(connection, [letter_id], author):
            return
        if await dead_letters.exists(connection, letter_id):
            raise Conflict(f"dead letter {letter_id} is a message: no job stands behind it")
        raise NotFound(f"no dead letter {letter_id}")

    async with traced(state.database, Operation.REDRIVE, None, [letter_id]):
        await state.database.run_in_transaction(work)
    state.wake.call()
    return await show_job(letter_id, state)


@router.post(
    "/{letter_id}/discard",
    status_code=204,
    response_class=Response,
    responses={**answers(404), **BODY_PROBLEMS},
    openapi_extra=takes(DiscardIn, {"why": "the customer is gone"}),
)
async def discard(letter_id: UUID, request: Request, state: State, author: Operator) -> Response:
    """Decide that nothing is to be done. The job stays dead, its history says why; a message is gone."""
    asked: DiscardIn = parsed(DiscardIn, await read_json(request))
    if not await state.database.run(lambda connection: dead_letters.discard(connection, letter_id, author, asked.why)):
        raise NotFound(f"no dead letter {letter_id}")
    return Response(status_code=204)


def _read_cursor(cursor: str | None) -> tuple[datetime, UUID] | None:
    if cursor is None:
        return None
    try:
        instant, letter_id = cursor.split("_")
        before = datetime.fromisoformat(instant), UUID(letter_id)
        check_instant("cursor", before[0])
    except (ValueError, InvalidInput):
        raise InvalidInput("cursor", "is none that this API has given") from None
    return before
