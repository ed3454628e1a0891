"""/v1/queues."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request

from mainspring.domain.errors import NotFound
from mainspring.store import queues
from mainspring.store.pool import Conn
from mainspring.store.queues import Queue as StoredQueue
from mainspring_services.api.access import OPERATES, READS, Operator
from mainspring_services.api.body import parsed, read_json
from mainspring_services.api.openapi import BODY_PROBLEMS, USUAL_PROBLEMS, answers, takes
from mainspring_services.api.schemas.common import Name, NoteQuery
from mainspring_services.api.schemas.queues import Queue, QueueIn, Queues
from mainspring_services.api.state import ApiState, State

router = APIRouter(prefix="/v1/queues", tags=["queues"], responses=USUAL_PROBLEMS)


@router.get("", response_model=Queues, dependencies=[READS])
async def list_all(state: State) -> dict[str, Any]:
    """All queues by name."""
    return {"items": [_out(one) for one in await state.database.run(queues.all_queues)]}


@router.get("/{name}", response_model=Queue, responses=answers(404), dependencies=[READS])
async def show(name: Name, state: State) -> dict[str, Any]:
    """A queue."""
    return _out(await _found(state, name))


@router.put(
    "/{name}",
    response_model=Queue,
    responses=BODY_PROBLEMS,
    openapi_extra=takes(QueueIn, {"concurrency": 10}),
    dependencies=[OPERATES],
)
async def save(name: Name, request: Request, state: State) -> dict[str, Any]:
    """Make a queue, or change its settings."""
    given: QueueIn = parsed(QueueIn, await read_json(request))
    settings = given.settings()

    async def work(connection: Conn) -> None:
        await queues.make_queues(connection, [name])
        await queues.change(connection, name, settings)
        if "concurrency" in given.model_fields_set:
            await queues.set_concurrency(connection, name, given.concurrency)

    await state.database.run_in_transaction(work)
    state.wake.call()
    return await show(name, state)


@router.post("/{name}/pause", response_model=Queue, responses=answers(404))
async def pause(name: Name, state: State, author: Operator, note: NoteQuery = None) -> dict[str, Any]:
    """Pause: no job of it starts; those that run go on."""
    if not await state.database.run(lambda connection: queues.pause(connection, name, note, author)):
        raise NotFound(f"no queue {name}")
    return await show(name, state)


@router.post("/{name}/resume", response_model=Queue, responses=answers(404), dependencies=[OPERATES])
async def resume(name: Name, state: State) -> dict[str, Any]:
    """Resume."""
    if not await state.database.run(lambda connection: queues.resume(connection, name)):
        raise NotFound(f"no queue {name}")
    state.wake.call()
    return await show(name, state)


async def _found(state: ApiState, name: str) -> StoredQueue:
    for one in await state.database.run(queues.all_queues):
        if one.name == name:
            return one
    raise NotFound(f"no queue {name}")


def _out(one: StoredQueue) -> dict[str, Any]:
    fields = asdict(one)
    fields.pop("backs_off_until")
    return fields | {
        "default_retry": json.loads(one.default_retry) if one.default_retry else None,
        "fair_weights": json.loads(one.fair_weights),
    }
