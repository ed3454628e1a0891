"""/v1/limits."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request, Response

from mainspring.domain.errors import NotFound
from mainspring.store import limits
from mainspring.store.pool import Conn
from mainspring_services.api.access import OPERATES, READS
from mainspring_services.api.body import parsed, read_json
from mainspring_services.api.openapi import BODY_PROBLEMS, USUAL_PROBLEMS, answers, takes
from mainspring_services.api.schemas.common import Name
from mainspring_services.api.schemas.limits import LimitIn, LimitInUse, LimitOut, Limits
from mainspring_services.api.state import State

router = APIRouter(prefix="/v1/limits", tags=["limits"], responses=USUAL_PROBLEMS)
_EXAMPLE = {"kind": "rate", "most": 100, "period_seconds": 60, "tasks": ["billing.charge"], "per": "customer"}


@router.get("", response_model=Limits, dependencies=[READS])
async def list_all(state: State) -> dict[str, Any]:
    """All limits by name. The concurrency of a queue, set with the queue, is shown there."""
    return {"items": [asdict(one) for one in await state.database.run(limits.named)]}


@router.get("/{name}", response_model=LimitInUse, responses=answers(404), dependencies=[READS])
async def show(name: Name, state: State) -> dict[str, Any]:
    """A limit, and the keys that use it."""

    async def work(connection: Conn) -> dict[str, Any]:
        for one in await limits.named(connection):
            if one.name == name:
                return asdict(one) | {"keys": [use._asdict() for use in await limits.keys_in_use(connection, one)]}
        raise NotFound(f"no limit {name}")

    return await state.database.run(work)


@router.put(
    "/{name}",
    response_model=LimitOut,
    responses=BODY_PROBLEMS,
    openapi_extra=takes(LimitIn, _EXAMPLE),
    dependencies=[OPERATES],
)
async def save(name: Name, request: Request, state: State) -> dict[str, Any]:
    """Create or replace a limit. It holds for what starts from now on; what runs already counts."""
    given: LimitIn = parsed(LimitIn, await read_json(request))
    one = given.limit(name)
    await state.database.run_in_transaction(lambda connection: limits.save(connection, one))
    state.wake.call()
    return asdict(one)


@router.delete("/{name}", status_code=204, response_class=Response, responses=answers(404), dependencies=[OPERATES])
async def delete(name: Name, state: State) -> Response:
    """Lift a limit."""
    if not await state.database.run_in_transaction(lambda connection: limits.delete(connection, name)):
        raise NotFound(f"no limit {name}")
    state.wake.call()
    return Response(status_code=204)
