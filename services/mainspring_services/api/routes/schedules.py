"""/v1/schedules."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict

from mainspring.domain.definition import ScheduleDefinition
from mainspring.domain.errors import Conflict, InvalidInput, NotFound
from mainspring.domain.job import JobRequest, check_instant, check_name
from mainspring.domain.schedule import fire_times, make_trigger
from mainspring.runtime.submit import submit_in
from mainspring.store import fleet, schedules
from mainspring.store.pool import Conn
from mainspring.store.schedules import StoredSchedule
from mainspring_services.api.body import parsed, read_json
from mainspring_services.api.schemas.schedules import NamedScheduleIn, ScheduleIn, schedule_out
from mainspring_services.api.state import ApiState, State

router = APIRouter(prefix="/v1/schedules", tags=["schedules"])
MOST_PREVIEWED = 1000


@router.post("", status_code=201)
async def create(request: Request, state: State) -> dict[str, Any]:
    """Create a schedule; 409 when its name is taken."""
    given: NamedScheduleIn = parsed(NamedScheduleIn, await read_json(request))
    definition = ScheduleIn(**given.model_dump(exclude={"name"})).definition(given.name)

    async def work(connection: Conn) -> StoredSchedule:
        if await schedules.lock(connection, definition.name) is not None:
            raise Conflict(f"there is a schedule {definition.name} already")
        return await _save(connection, definition)

    return schedule_out(await state.database.run_in_transaction(work))


@router.put("/{name}")
async def save(name: str, request: Request, state: State) -> dict[str, Any]:
    """Create or replace a schedule."""
    given: ScheduleIn = parsed(ScheduleIn, await read_json(request))
    definition = given.definition(name)

    async def work(connection: Conn) -> StoredSchedule:
        return await _save(connection, definition)

    return schedule_out(await state.database.run_in_transaction(work))


async def _save(connection: Conn, definition: ScheduleDefinition) -> StoredSchedule:
    await schedules.save(connection, definition, await fleet.now(connection))
    return await _found(connection, definition.name)


async def _found(connection: Conn, name: str) -> StoredSchedule:
    one = await schedules.get(connection, name)
    if one is None:
        raise NotFound(f"no schedule {name}")
    return one


@router.get("")
async def list_all(state: State, after: str = "", limit: int = Query(default=100, ge=1, le=1000)) -> dict[str, Any]:
    """Schedules by name."""
    page = await state.database.run(lambda connection: schedules.list_after(connection, after, limit))
    return {"items": [schedule_out(one) for one in page], "next": page[-1].name if len(page) == limit else None}


class PreviewIn(BaseModel):
    """What a preview is asked."""

    model_config = ConfigDict(extra="forbid")

    cron: Any
    timezone: Any = "UTC"
    start: datetime
    until: datetime | None = None
    count: int | None = None


@router.post("/preview")
async def preview(request: Request) -> dict[str, Any]:
    """The fire times of an expression in [start, until), at most 1000."""
    asked: PreviewIn = parsed(PreviewIn, await read_json(request))
    check_instant("start", asked.start)
    check_instant("until", asked.until)
    trigger = make_trigger(cron=asked.cron, timezone=asked.timezone, anchor=asked.start)
    if asked.count is not None and not 1 <= asked.count <= MOST_PREVIEWED:
        raise InvalidInput("count", f"must be from 1 to {MOST_PREVIEWED}")
    times = fire_times(trigger, asked.start, asked.until, asked.count or MOST_PREVIEWED)
    return {"fire_times": [instant.strftime("%Y-%m-%dT%H:%M:%SZ") for instant in times]}


@router.get("/{name}")
async def show(name: str, state: State) -> dict[str, Any]:
    """A schedule."""
    return schedule_out(await state.database.run(lambda connection: _found(connection, name)))


@router.delete("/{name}", status_code=204)
async def delete(name: str, state: State) -> Response:
    """Delete a schedule; the jobs it made stay."""
    if not await state.database.run(lambda connection: schedules.delete(connection, name)):
        raise NotFound(f"no schedule {name}")
    return Response(status_code=204)


@router.get("/{name}/fires")
async def fires(
    name: str, state: State, before: datetime | None = None, limit: int = Query(default=100, ge=1, le=1000)
) -> dict[str, Any]:
    """What became of its nominal times, the latest first."""
    check_instant("before", before)
    rows = await state.database.run(lambda connection: schedules.fires_of(connection, name, before, limit))
    items = [
        {
            "nominal_at": row["nominal_at"].isoformat(),
            "last_nominal_at": row["last_nominal_at"].isoformat(),
            "nominal_times": row["nominal_times"],
            "job_id": str(row["job_id"]) if row["job_id"] else None,
            "skipped": row["skipped"],
        }
        for row in rows
    ]
    return {"items": items, "next": items[-1]["nominal_at"] if len(items) == limit else None}


@router.post("/{name}/pause")
async def pause(name: str, state: State, note: str | None = Query(default=None, max_length=1000)) -> dict[str, Any]:
    """Pause: nothing fires until it is resumed."""
    return await _set_paused(state, name, True, note)


@router.post("/{name}/resume")
async def resume(name: str, state: State) -> dict[str, Any]:
    """Resume: it waits for its first nominal time after now."""
    return await _set_paused(state, name, False, None)


async def _set_paused(state: ApiState, name: str, paused: bool, note: str | None) -> dict[str, Any]:
    async def work(connection: Conn) -> StoredSchedule:
        one = await schedules.lock(connection, name)
        if one is None:
            raise NotFound(f"no schedule {name}")
        await schedules.set_paused(connection, one, paused, note, await fleet.now(connection))
        return await _found(connection, name)

    return schedule_out(await state.database.run_in_transaction(work))


@router.post("/{name}/trigger", status_code=201)
async def trigger(name: str, state: State) -> Response:
    """Make a job of it now, beside its nominal times."""
    check_name("name", name)

    async def work(connection: Conn) -> str:
        one = await schedules.lock(connection, name)
        if one is None:
            raise NotFound(f"no schedule {name}")
        plan = one.definition()
        request = JobRequest(
            plan.task, plan.payload, queue=plan.queue, priority=plan.priority, tags=plan.tags, schedule=name
        )
        (accepted,) = await submit_in(connection, [request])
        return accepted.answer

    answer = await state.database.run_in_transaction(work)
    state.wake.call()
    return Response(answer, 201, media_type="application/json")
