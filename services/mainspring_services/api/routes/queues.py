"""/v1/queues."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request

from mainspring.domain.errors import NotFound
from mainspring.store import fleet
from mainspring.store.fleet import Queue as StoredQueue
from mainspring.store.pool import Conn
from mainspring_services.api.access import OPERATES, READS
from mainspring_services.api.body import parsed, read_json
from mainspring_services.api.openapi import BODY_PROBLEMS, USUAL_PROBLEMS, answers, takes
from mainspring_services.api.schemas.common import Name, NoteQuery
from mainspring_services.api.schemas.fleet import Queue, QueueIn, Queues
from mainspring_services.api.state import ApiState, State

router = APIRouter(prefix="/v1/queues", tags=["queues"], responses=USUAL_PROBLEMS)


@router.get("", response_model=Queues, dependencies=[READS])
async def list_all(state: State) -> dict[str, Any]:
    """All queues by name."""
    return {"items": [_out(one) for one in await state.database.run(fleet.queues)]}


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
    defaults = given.defaults()

    async def work(connection: Conn) -> None:
        await fleet.make_queues(connection, [name])
        if given.release_window is not None:
            await fleet.set_window(connection, name, given.release_window)
        if "concurrency" in given.model_fields_set:
            await fleet.set_concurrency(connection, name, given.concurrency)
        if defaults:
            await fleet.set_defaults(connection, name, defaults)

    await state.database.run_in_transaction(work)
    return await show(name, state)


@router.post("/{name}/pause", response_model=Queue, responses=answers(404), dependencies=[OPERATES])
async def pause(name: Name, state: State, note: NoteQuery = None) -> dict[str, Any]:
    """Pause: no job of it starts; those that run go on."""
    return await _pause(state, name, True, note)


@router.post("/{name}/resume", response_model=Queue, responses=answers(404), dependencies=[OPERATES])
async def resume(name: Name, state: State) -> dict[str, Any]:
    """Resume."""
    answer = await _pause(state, name, False, None)
    state.wake.call()
    return answer


async def _pause(state: ApiState, name: str, paused: bool, note: str | None) -> dict[str, Any]:
    if not await state.database.run(lambda connection: fleet.pause_queue(connection, name, paused, note)):
        raise NotFound(f"no queue {name}")
    return await show(name, state)


async def _found(state: ApiState, name: str) -> StoredQueue:
    for one in await state.database.run(fleet.queues):
        if one.name == name:
            return one
    raise NotFound(f"no queue {name}")


def _out(one: StoredQueue) -> dict[str, Any]:
    fields = asdict(one)
    fields.pop("backs_off_until")
    return fields | {"default_retry": json.loads(one.default_retry) if one.default_retry else None}
