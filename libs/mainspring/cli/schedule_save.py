"""``mainspring schedules save``: create a schedule, or change what is given of one."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from mainspring.cli.api_client import call
from mainspring.cli.output import Json, show
from mainspring.domain.errors import InvalidInput, NotFound

_WHEN = ("cron", "every_seconds", "at")


def save(
    name: str,
    task: Annotated[str | None, typer.Option(help="What its jobs run; needed for a new schedule.")] = None,
    payload: Annotated[str | None, typer.Option(help="Its jobs' payload as JSON.")] = None,
    cron: Annotated[str | None, typer.Option(help="Five fields, or a name such as @daily.")] = None,
    every: Annotated[float | None, typer.Option(help="Every so many seconds, in place of a cron expression.")] = None,
    at: Annotated[str | None, typer.Option(help="Once, at this instant.")] = None,
    timezone: Annotated[str | None, typer.Option(help="An IANA zone; default: UTC.")] = None,
    calendar: Annotated[list[str] | None, typer.Option(help="A calendar whose days it leaves out; repeatable.")] = None,
    jitter: Annotated[float | None, typer.Option(help="Spread each fire over so many seconds.")] = None,
    misfire: Annotated[str | None, typer.Option(help="Of missed times: skip, fire_once or fire_all.")] = None,
    max_catchup: Annotated[int | None, typer.Option(help="With fire_all: so many at most.")] = None,
    catchup_window: Annotated[float | None, typer.Option(help="Of missed times, in seconds: how old at most.")] = None,
    overlap: Annotated[
        str | None, typer.Option(help="While a job is live: allow, skip, queue_one, queue_all or cancel_running.")
    ] = None,
    pause_after: Annotated[int | None, typer.Option(help="Pause itself after so many failures in a row.")] = None,
    start_at: Annotated[str | None, typer.Option(help="No nominal time before.")] = None,
    end_at: Annotated[str | None, typer.Option(help="No nominal time from then on.")] = None,
    max_runs: Annotated[int | None, typer.Option(help="It ends after so many jobs.")] = None,
    queue: Annotated[str | None, typer.Option(help="Its jobs' queue; default: the task's.")] = None,
    priority: Annotated[int | None, typer.Option(help="Its jobs' priority, 0 (first) to 9.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="A tag of its jobs; repeatable.")] = None,
    note: Annotated[str | None, typer.Option(help="For those who look later.")] = None,
    paused: Annotated[bool | None, typer.Option(help="Whether it is paused.")] = None,
    as_json: Json = False,
) -> None:
    """Create a schedule, or change what is given of one.

    Example: mainspring schedules save nightly --task reports.daily --cron '30 2 * * *' --timezone Europe/Berlin
    """
    given: dict[str, Any] = {
        "task": task,
        "payload": _payload(payload),
        "cron": cron,
        "every_seconds": every,
        "at": at,
        "timezone": timezone,
        "calendars": calendar or None,
        "jitter_seconds": jitter,
        "misfire": misfire,
        "max_catchup": max_catchup,
        "catchup_window_seconds": catchup_window,
        "overlap": overlap,
        "pause_after": pause_after,
        "start_at": start_at,
        "end_at": end_at,
        "max_runs": max_runs,
        "queue": queue,
        "priority": priority,
        "tags": tag or None,
        "note": note,
        "paused": paused,
    }
    changes = {field: value for field, value in given.items() if value is not None}
    show(call("PUT", f"/v1/schedules/{name}", body=_existing(name, given, changes) | changes), as_json)


def _existing(name: str, fields: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    try:
        stored = call("GET", f"/v1/schedules/{name}")
    except NotFound:
        if "task" not in changes:
            raise InvalidInput("task", f"there is no schedule {name} yet: a new one needs --task") from None
        return {}
    replaces_when = any(field in changes for field in _WHEN)
    return {field: stored[field] for field in fields if not (replaces_when and field in _WHEN)}


def _payload(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidInput("payload", f"is not JSON: {error}") from None
