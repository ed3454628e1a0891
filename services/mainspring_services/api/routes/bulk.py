"""/v1/bulk."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from fastapi import APIRouter, Request, Response

from mainspring.domain.errors import NotFound
from mainspring.runtime import bulk
from mainspring.store import bulk as stored
from mainspring_services.api.access import READS, Operator
from mainspring_services.api.body import parsed, read_json
from mainspring_services.api.openapi import BODY_PROBLEMS, USUAL_PROBLEMS, answers, takes
from mainspring_services.api.schemas.bulk import BulkCount, BulkIn, BulkOperations, BulkOut, bulk_out
from mainspring_services.api.schemas.common import Limit
from mainspring_services.api.state import State

router = APIRouter(prefix="/v1/bulk", tags=["bulk operations"], responses=USUAL_PROBLEMS)
_EXAMPLE = {
    "action": "redrive",
    "filter": {"task": "billing.charge", "reason": "exhausted"},
    "per_second": 50,
    "canary": {"steps": [0.01, 0.1], "most_failures": 0.1},
    "note": "the provider is back",
}


@router.post(
    "",
    status_code=201,
    response_model=BulkOut,
    responses={
        200: {"model": BulkCount, "description": "Counted, with `dry_run`."},
        201: {"description": "Begun: schedulers do it from now on."},
        **answers(409),
        **BODY_PROBLEMS,
    },
    openapi_extra=takes(BulkIn, _EXAMPLE),
)
async def start(request: Request, state: State, author: Operator) -> Any:
    """Do something to all jobs, or dead letters, that pass a filter now; with `dry_run` only count them."""
    given: BulkIn = parsed(BulkIn, await read_json(request))
    asked = given.request()
    if given.dry_run:
        found = await state.database.run(lambda connection: bulk.count(connection, asked))
        answer = BulkCount(matched=found.total, by_state=found.by_state)
        return Response(answer.model_dump_json(), media_type="application/json")
    return bulk_out(await state.database.run_in_transaction(lambda connection: bulk.start(connection, asked, author)))


@router.get("", response_model=BulkOperations, dependencies=[READS])
async def list_newest(state: State, limit: Limit = 20) -> dict[str, Any]:
    """Bulk operations, the latest first."""
    found = await state.database.run(lambda connection: stored.newest(connection, limit))
    return {"items": [bulk_out(one) for one in found]}


@router.get("/{operation_id}", response_model=BulkOut, responses=answers(404), dependencies=[READS])
async def show(operation_id: UUID, state: State) -> dict[str, Any]:
    """A bulk operation, and how far it is."""
    found = await state.database.run(lambda connection: stored.get(connection, operation_id))
    if found is None:
        raise NotFound(f"no bulk operation {operation_id}")
    return bulk_out(found)


@router.post("/{operation_id}/cancel", response_model=BulkOut, responses=answers(404, 409))
async def cancel(operation_id: UUID, state: State, _author: Operator) -> dict[str, Any]:
    """Take no more. What was done stays done."""
    await state.database.run_in_transaction(lambda connection: bulk.cancel(connection, operation_id))
    return await show(operation_id, state)
