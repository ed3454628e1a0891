"""/v1/schedules."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from mainspring.domain.job import check_instant
from mainspring.domain.schedule import fire_times, make_trigger
from mainspring.runtime import schedule_changes
from mainspring.runtime.replay import once
from mainspring.store import schedules
from mainspring.store.fires import of as fires_of
from mainspring.store.pool import Conn
from mainspring.store.schedules import ScheduleFilter
from mainspring_services.api.access import OPERATES, READS, SUBMITS
from mainspring_services.api.body import parsed, read_json
from mainspring_services.api.openapi import BODY_PROBLEMS, KEY, REPLAYED, USUAL_PROBLEMS, answers, replayed, takes
from mainspring_services.api.schemas.common import Instant, Limit, Name, NameText, NoteQuery, Word
from mainspring_services.api.schemas.jobs import Job
from mainspring_services.api.schemas.schedules import (
    MOST_PREVIEWED,
    Fire,
    FirePage,
    FireTimes,
    LintedSchedule,
    NamedScheduleIn,
    PreviewIn,
    SavedSchedule,
    Schedule,
    ScheduleIn,
    SchedulePage,
    saved_out,
    schedule_out,
)
from mainspring_services.api.state import ApiState, State
from mainspring_services.api.tracing import traced_submit

router = APIRouter(prefix="/v1/schedules", tags=["schedules"], responses=USUAL_PROBLEMS)
EXAMPLE = {"task": "reports.daily", "cron": "0 6 * * *", "timezone": "Europe/Berlin"}


@router.post(
    "",
    status_code=201,
    response_class=Response,
    responses={
        201: {"model": SavedSchedule, "description": "It fires from now on.", "headers": REPLAYED},
        **answers(409),
        **BODY_PROBLEMS,
    },
    openapi_extra={**takes(NamedScheduleIn, {"name": "daily-report", **EXAMPLE}), "parameters": [KEY]},
    dependencies=[OPERATES],
)
async def create(request: Request, state: State) -> Response:
    """Create a schedule; 409 when its name is taken."""
    given: NamedScheduleIn = parsed(NamedScheduleIn, await read_json(request))
    definition = ScheduleIn(**given.model_dump(exclude={"name"})).definition(given.name)

    async def make(connection: Conn) -> str:
        made = await schedule_changes.save(connection, definition, is_new=True)
        return SavedSchedule(**await saved_out(connection, made)).model_dump_json()

    key = request.headers.get("idempotency-key")
    # What was asked, not what it means by now: a later release may know more fields.
    asked = given.model_dump_json(exclude_unset=True)
    answer, is_replayed = await state.database.run_in_transaction(
        lambda connection: once(connection, "schedule", key, asked, lambda: make(connection))
    )
    return Response(answer, 201, replayed(is_replayed), media_type="application/json")


@router.put(
    "/{name}",
    response_model=SavedSchedule,
    responses=BODY_PROBLEMS,
    openapi_extra=takes(ScheduleIn, EXAMPLE),
    dependencies=[OPERATES],
)
async def save(name: Name, request: Request, state: State) -> dict[str, Any]:
    """Create or replace a schedule."""
    given: ScheduleIn = parsed(ScheduleIn, await read_json(request))
    definition = given.definition(name)

    async def work(connection: Conn) -> dict[str, Any]:
        return await saved_out(connection, await schedule_changes.save(connection, definition))

    return await state.database.run_in_transaction(work)


@router.get("", response_model=SchedulePage, dependencies=[READS])
async def list_all(
    state: State,
    cursor: Annotated[NameText | None, Query(description="The `next` of the page before.")] = None,
    limit: Limit = 100,
    prefix: Annotated[Word | None, Query(description="Of their names.")] = None,
    task: NameText | None = None,
    queue: NameText | None = None,
    tag: Word | None = None,
    paused: bool | None = None,
) -> dict[str, Any]:
    """Schedules by name: those that fit each field given."""
    which = ScheduleFilter(prefix, task, queue, tag, paused)
    page = await state.database.run(lambda connection: schedules.list_after(connection, cursor or "", limit, which))
    return {"items": [schedule_out(one) for one in page], "next": page[-1].name if len(page) == limit else None}


@router.post(
    "/preview",
    response_model=FireTimes,
    responses=BODY_PROBLEMS,
    openapi_extra=takes(PreviewIn, {"cron": "0 6 * * *", "timezone": "Europe/Berlin", "start": "2026-03-01T00:00:00Z"}),
    dependencies=[READS],
)
async def preview(request: Request) -> dict[str, Any]:
    """The fire times of an expression in [start, until), at most 1000."""
    asked: PreviewIn = parsed(PreviewIn, await read_json(request))
    check_instant("start", asked.start)
    check_instant("until", asked.until)
    trigger = make_trigger(cron=asked.cron, timezone=asked.timezone, anchor=asked.start)
    times = fire_times(trigger, asked.start, asked.until, asked.count or MOST_PREVIEWED)
    return {"fire_times": list(times)}


@router.get("/{name}", response_model=Schedule, responses=answers(404), dependencies=[READS])
async def show(name: Name, state: State) -> dict[str, Any]:
    """A schedule."""
    return schedule_out(await state.database.run(lambda connection: schedule_changes.found(connection, name)))


@router.get("/{name}/lint", response_model=LintedSchedule, responses=answers(404), dependencies=[READS])
async def lint(name: Name, state: State) -> dict[str, Any]:
    """What of it may not be meant: a time that a clock change skips, runs that overlap, a minute of everybody."""

    async def work(connection: Conn) -> dict[str, Any]:
        return await saved_out(connection, await schedule_changes.found(connection, name))

    return await state.database.run(work)


@router.delete("/{name}", status_code=204, response_class=Response, responses=answers(404), dependencies=[OPERATES])
async def delete(name: Name, state: State) -> Response:
    """Delete a schedule; the jobs it made stay."""
    await state.database.run_in_transaction(lambda connection: schedule_changes.delete(connection, name))
    return Response(status_code=204)


@router.get("/{name}/fires", response_model=FirePage, dependencies=[READS])
async def fires(
    name: Name,
    state: State,
    cursor: Annotated[Instant | None, Query(description="The `next` of the page before.")] = None,
    limit: Limit = 100,
) -> dict[str, Any]:
    """What became of its nominal times, the latest first. The record outlives the schedule."""
    check_instant("cursor", cursor)
    rows = await state.database.run(lambda connection: fires_of(connection, name, cursor, limit))
    items = [{field: row[field] for field in Fire.model_fields} for row in rows]
    return {"items": items, "next": items[-1]["nominal_at"] if len(items) == limit else None}


@router.post("/{name}/pause", response_model=Schedule, responses=answers(404), dependencies=[OPERATES])
async def pause(name: Name, state: State, note: NoteQuery = None) -> dict[str, Any]:
    """Pause: nothing fires until it is resumed."""
    return await _set_paused(state, name, True, note)


@router.post("/{name}/resume", response_model=Schedule, responses=answers(404), dependencies=[OPERATES])
async def resume(name: Name, state: State) -> dict[str, Any]:
    """Resume: it waits for its first nominal time after now."""
    return await _set_paused(state, name, False, None)


async def _set_paused(state: ApiState, name: str, paused: bool, note: str | None) -> dict[str, Any]:
    return schedule_out(
        await state.database.run_in_transaction(
            lambda connection: schedule_changes.set_paused(connection, name, paused, note)
        )
    )


@router.post(
    "/{name}/trigger",
    status_code=201,
    response_class=Response,
    responses={201: {"model": Job, "description": "Its job is accepted.", "headers": REPLAYED}, **answers(404, 409)},
    openapi_extra={"parameters": [KEY]},
    dependencies=[SUBMITS],
)
async def trigger(name: Name, request: Request, state: State) -> Response:
    """Make a job of it now, beside its nominal times."""
    key = request.headers.get("idempotency-key")
    with traced_submit(request) as (span, traceparent):
        accepted = await state.database.run_in_transaction(
            lambda connection: schedule_changes.trigger(connection, name, idempotency_key=key, traceparent=traceparent)
        )
        span.set_attributes({"messaging.message.id": str(accepted.id), "mainspring.schedule": name})
    state.wake.call()
    return Response(accepted.answer, 201, replayed(accepted.is_replayed), media_type="application/json")
