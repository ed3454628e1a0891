"""/v1/calendars: the days on which schedules don't fire."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from mainspring.domain.calendar import Calendar
from mainspring.runtime import calendar_changes
from mainspring.store import calendars
from mainspring_services.api.access import OPERATES, READS
from mainspring_services.api.body import parsed, read_json
from mainspring_services.api.openapi import BODY_PROBLEMS, USUAL_PROBLEMS, answers, takes
from mainspring_services.api.schemas.common import Limit, Name, NameText
from mainspring_services.api.schemas.schedule_changes import CalendarIn, CalendarOut, CalendarPage
from mainspring_services.api.state import State

router = APIRouter(prefix="/v1/calendars", tags=["calendars"], responses=USUAL_PROBLEMS)


@router.get("", response_model=CalendarPage, dependencies=[READS])
async def list_all(
    state: State,
    cursor: Annotated[NameText | None, Query(description="The `next` of the page before.")] = None,
    limit: Limit = 100,
) -> dict[str, Any]:
    """Calendars by name."""
    page = await state.database.run(lambda connection: calendars.list_after(connection, cursor or "", limit))
    return {"items": [one._asdict() for one in page], "next": page[-1].name if len(page) == limit else None}


@router.put(
    "/{name}",
    response_model=CalendarOut,
    responses=BODY_PROBLEMS,
    openapi_extra=takes(CalendarIn, {"days": ["12-25", "12-26", "2026-04-03"]}),
    dependencies=[OPERATES],
)
async def save(name: Name, request: Request, state: State) -> dict[str, Any]:
    """Create or replace a calendar; the schedules that name it wait for their next time by its new days."""
    given: CalendarIn = parsed(CalendarIn, await read_json(request))
    one = Calendar(name, tuple(given.days), given.note)
    return (
        await state.database.run_in_transaction(lambda connection: calendar_changes.save(connection, one))
    )._asdict()


@router.get("/{name}", response_model=CalendarOut, responses=answers(404), dependencies=[READS])
async def show(name: Name, state: State) -> dict[str, Any]:
    """A calendar."""
    return (await state.database.run(lambda connection: calendar_changes.found(connection, name)))._asdict()


@router.delete(
    "/{name}", status_code=204, response_class=Response, responses=answers(404, 409), dependencies=[OPERATES]
)
async def delete(name: Name, state: State) -> Response:
    """Delete a calendar; 409 while a schedule names it."""
    await state.database.run_in_transaction(lambda connection: calendar_changes.delete(connection, name))
    return Response(status_code=204)
