"""``mainspring calendars``."""

from __future__ import annotations

from typing import Annotated

import typer

from mainspring.cli.api_client import call, pages
from mainspring.cli.output import Json, say, show, show_list

app = typer.Typer(no_args_is_help=True, help="Days on which schedules don't fire.")
MOST = 10_000


@app.command("list")
def list_all(as_json: Json = False) -> None:
    """All calendars by name.

    Example: mainspring calendars list
    """
    show_list(pages("/v1/calendars", MOST), ("name", "days", "note"), as_json)


@app.command()
def save(
    name: str,
    days: Annotated[list[str], typer.Argument(help="2026-12-24, or 12-25 for each year.")],
    note: Annotated[str | None, typer.Option(help="For those who look later.")] = None,
    as_json: Json = False,
) -> None:
    """Create or replace a calendar; the schedules that name it follow at once.

    Example: mainspring calendars save holidays 12-25 12-26 2026-04-03
    """
    show(call("PUT", f"/v1/calendars/{name}", body={"days": days, "note": note}), as_json)


@app.command()
def delete(name: str) -> None:
    """Delete a calendar that no schedule names.

    Example: mainspring calendars delete holidays
    """
    call("DELETE", f"/v1/calendars/{name}")
    say(f"{name} is deleted")
