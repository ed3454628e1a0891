"""/v1/queues."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any, TypeVar

from fastapi import APIRouter, Request

from mainspring.domain.errors import InvalidInput, NotFound
from mainspring.runtime import queue_apply
from mainspring.runtime.queue_apply import WantedQueue
from mainspring.store import queues
from mainspring.store.pool import Conn
from mainspring.store.queues import Queue as StoredQueue
from mainspring_services.api.access import OPERATES, READS, Operator
from mainspring_services.api.body import parsed, read_json
from mainspring_services.api.openapi import BODY_PROBLEMS, USUAL_PROBLEMS, answers, takes
from mainspring_services.api.schemas.common import AppliedOut, Name, NoteQuery
from mainspring_services.api.schemas.queues import Queue, QueueIn, Queues, QueuesIn
from mainspring_services.api.state import ApiState, State

Made = TypeVar("Made")
_FILE = {
    "queues": [{"name": "billing", "concurrency": 10}],
    "limits": [{"name": "charges", "kind": "rate", "most": 100, "period_seconds": 60, "tasks": ["billing.charge"]}],
    "dry_run": True,
}
router = APIRouter(prefix="/v1/queues", tags=["queues"], responses=USUAL_PROBLEMS)


@router.get("", response_model=Queues, dependencies=[READS])
async def list_all(state: State) -> dict[str, Any]:
    """All queues by name."""
    return {"items": [_out(one) for one in await state.database.run(queues.all_queues)]}


@router.post(
    "/apply",
    response_model=AppliedOut,
    responses={**answers(409), **BODY_PROBLEMS},
    openapi_extra=takes(QueuesIn, _FILE),
    dependencies=[OPERATES],
)
async def apply(request: Request, state: State) -> dict[str, Any]:
    """Make queues and limits those of a file, in one transaction; with `dry_run` only say what would change."""
    given: QueuesIn = parsed(QueuesIn, await read_json(request))
    wanted = [WantedQueue(one.name, _of_entry("queues", index, one.settings)) for index, one in enumerate(given.queues)]
    limits = [_of_entry("limits", index, partial(one.limit, one.name)) for index, one in enumerate(given.limits)]
    applied = await state.database.run_in_transaction(
        lambda connection: queue_apply.apply(
            connection, wanted, limits, prune=given.prune, dry_run=given.dry_run, digest=given.digest
        )
    )
    state.wake.call()
    return asdict(applied) | {"dry_run": given.dry_run, "digest": applied.digest()}


def _of_entry(place: str, index: int, made: Callable[[], Made]) -> Made:
    try:
        return made()
    except InvalidInput as error:
        raise InvalidInput(f"{place}.{index}.{error.field}", error.message) from error


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
        "retention": json.loads(one.retention) if one.retention else None,
    }
