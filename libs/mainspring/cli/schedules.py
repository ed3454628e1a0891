"""``mainspring schedules``."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated

import typer

from mainspring.cli.api_client import call, pages
from mainspring.cli.output import Json, show, show_list
from mainspring.domain.errors import InvalidInput
from mainspring.domain.job import check_instant
from mainspring.domain.schedule import fire_times, make_trigger

app = typer.Typer(no_args_is_help=True, help="Look after schedules.")
MOST = 100_000
#: Fire times that are shown when nothing says how many.
PREVIEWED = 10


@app.command()
def preview(
    cron: str,
    start: Annotated[str | None, typer.Option("--from", help="The first instant; default: now.")] = None,
    timezone: Annotated[str, typer.Option(help="An IANA zone.")] = "UTC",
    until: Annotated[str | None, typer.Option(help="The end, itself excluded.")] = None,
    count: Annotated[int | None, typer.Option(help=f"How many; without --until {PREVIEWED} unless given.")] = None,
    as_json: Json = False,
) -> None:
    """When an expression fires; needs no server.

    Example: mainspring schedules preview '30 2 * * *' --timezone America/New_York --from 2025-03-08T00:00:00Z --count 3
    """
    if until is not None and count is not None:
        raise InvalidInput("until", "give either --until or --count")
    if count is not None and not 1 <= count <= MOST:
        raise InvalidInput("count", f"must be from 1 to {MOST}")
    first = _instant("from", start) if start else datetime.now(UTC)
    end = _instant("until", until) if until else None
    most = count or (MOST if end else PREVIEWED)
    trigger = make_trigger(cron=cron, timezone=timezone, anchor=first)
    times = [one.strftime("%Y-%m-%dT%H:%M:%SZ") for one in fire_times(trigger, first, end, most)]
    print(json.dumps({"fire_times": times}) if as_json else "\n".join(times))


def _instant(field: str, text: str) -> datetime:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(field, f"{text!r} is no instant such as 2026-03-01T00:00:00Z") from None
    check_instant(field, instant)
    return instant


@app.command("list")
def list_all(as_json: Json = False) -> None:
    """All schedules.

    Example: mainspring schedules list
    """
    page = pages("/v1/schedules", MOST)
    show_list(page, ("name", "task", "cron", "every_seconds", "timezone", "paused", "next_nominal_at"), as_json)


@app.command()
def pause(name: str, note: str | None = None, as_json: Json = False) -> None:
    """Pause a schedule.

    Example: mainspring schedules pause nightly --note 'while the books are closed'
    """
    show(call("POST", f"/v1/schedules/{name}/pause", note=note), as_json)


@app.command()
def resume(name: str, as_json: Json = False) -> None:
    """Resume a schedule; nothing is caught up.

    Example: mainspring schedules resume nightly
    """
    show(call("POST", f"/v1/schedules/{name}/resume"), as_json)


@app.command()
def trigger(name: str, as_json: Json = False) -> None:
    """Make a job of a schedule now.

    Example: mainspring schedules trigger nightly
    """
    show(call("POST", f"/v1/schedules/{name}/trigger"), as_json)
