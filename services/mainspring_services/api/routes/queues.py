"""/v1/queues."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from mainspring.domain.errors import NotFound
from mainspring.domain.job import check_name
from mainspring.store import fleet
from mainspring.store.fleet import Queue
from mainspring.store.pool import Conn
from mainspring_services.api.body import parsed, read_json
from mainspring_services.api.state import ApiState, State

router = APIRouter(prefix="/v1/queues", tags=["queues"])


class QueueIn(BaseModel):
    """A queue's settings; what is left out stays as it is."""

    model_config = ConfigDict(extra="forbid")

    #: Jobs of the queue that may be in the broker at once.
    release_window: int | None = Field(default=None, ge=1, le=1_000_000)
    #: Jobs of the queue that may hold a slot at once, over all workers; null lifts the limit.
    concurrency: int | None = Field(default=None, ge=1, le=1_000_000)


@router.get("")
async def list_all(state: State) -> dict[str, Any]:
    """All queues by name."""
    return {"items": [_out(one) for one in await state.database.run(fleet.queues)], "next": None}


@router.get("/{name}")
async def show(name: str, state: State) -> dict[str, Any]:
    """A queue."""
    return _out(await _found(state, name))


@router.put("/{name}")
async def save(name: str, request: Request, state: State) -> dict[str, Any]:
    """Make a queue, or change its settings."""
    check_name("name", name)
    given: QueueIn = parsed(QueueIn, await read_json(request))

    async def work(connection: Conn) -> None:
        await fleet.make_queues(connection, [name])
        if given.release_window is not None:
            await fleet.set_window(connection, name, given.release_window)
        if "concurrency" in given.model_fields_set:
            await fleet.set_concurrency(connection, name, given.concurrency)

    await state.database.run_in_transaction(work)
    return await show(name, state)


@router.post("/{name}/pause")
async def pause(name: str, state: State, note: str | None = Query(default=None, max_length=1000)) -> dict[str, Any]:
    """Pause: no job of it starts; those that run go on."""
    return await _pause(state, name, True, note)


@router.post("/{name}/resume")
async def resume(name: str, state: State) -> dict[str, Any]:
    """Resume."""
    answer = await _pause(state, name, False, None)
    state.wake.call()
    return answer


async def _pause(state: ApiState, name: str, paused: bool, note: str | None) -> dict[str, Any]:
    if not await state.database.run(lambda connection: fleet.pause_queue(connection, name, paused, note)):
        raise NotFound(f"no queue {name}")
    return await show(name, state)


async def _found(state: ApiState, name: str) -> Queue:
    for one in await state.database.run(fleet.queues):
        if one.name == name:
            return one
    raise NotFound(f"no queue {name}")


def _out(one: Queue) -> dict[str, Any]:
    fields = asdict(one)
    fields.pop("backs_off_until")
    return fields
