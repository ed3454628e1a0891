"""``mainspring bulk``."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer
from rich.console import Console

from mainspring.cli.api_client import call
from mainspring.cli.output import Json, Limit, say, show, show_list
from mainspring.domain.bulk import Action

app = typer.Typer(no_args_is_help=True, help="Do something to all jobs, or dead letters, that pass a filter.")
FOLLOW_SECONDS = 0.5
_LIVE, _DEAD = "Of jobs that have not ended", "Of dead letters"


@app.command()
def start(
    action: Annotated[Action, typer.Argument(help="cancel, retry, edit: jobs. redrive, discard: dead letters.")],
    state: Annotated[
        list[str] | None, typer.Option(help="In this state; may be given again.", rich_help_panel=_LIVE)
    ] = None,
    queue: Annotated[str | None, typer.Option(help="Of this queue.")] = None,
    task: Annotated[str | None, typer.Option(help="Of this task.")] = None,
    schedule: Annotated[str | None, typer.Option(help="Of this schedule.", rich_help_panel=_LIVE)] = None,
    tag: Annotated[str | None, typer.Option(help="With this tag.", rich_help_panel=_LIVE)] = None,
    reason: Annotated[str | None, typer.Option(help="Dead for this reason.", rich_help_panel=_DEAD)] = None,
    fingerprint: Annotated[str | None, typer.Option(help="Died like this.", rich_help_panel=_DEAD)] = None,
    since: Annotated[str | None, typer.Option(help="Submitted, or dead, at this instant or later.")] = None,
    until: Annotated[str | None, typer.Option(help="Submitted, or dead, before this instant.")] = None,
    all_of_them: Annotated[bool, typer.Option("--all", help="All, without a filter.")] = False,
    priority: Annotated[int | None, typer.Option(help="The new priority, of edit.")] = None,
    per_second: Annotated[float | None, typer.Option(help="At most so many a second.")] = None,
    canary: Annotated[
        bool, typer.Option("--canary", help="redrive 1 %, then 10 %, then all; stop when too many fail again.")
    ] = False,
    most_failures: Annotated[float, typer.Option(help="The share that may fail again, of a canary.")] = 0.1,
    note: Annotated[str | None, typer.Option(help="Why, for those who look later.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count only.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")] = False,
    wait: Annotated[bool, typer.Option(help="Follow it to its end; exit 1 when it stops by itself.")] = True,
    as_json: Json = False,
) -> None:
    """Count what passes the filter, ask, and do it.

    Example: mainspring bulk start redrive --task billing.charge --reason exhausted --per-second 50 --canary
    """
    asked = {"state": state, "queue": queue, "task": task, "schedule": schedule, "tag": tag, "reason": reason}
    asked |= {"fingerprint": fingerprint, "since": since, "until": until}
    body: dict[str, Any] = {
        "action": action.value,
        "filter": {name: value for name, value in asked.items() if value},
        "all": all_of_them,
        "priority": priority,
        "per_second": per_second,
        "canary": {"most_failures": most_failures} if canary else None,
        "note": note,
    }
    counted = call("POST", "/v1/bulk", body=body | {"dry_run": True})
    if dry_run:
        show(counted, as_json)
        return
    states = ", ".join(f"{count} {name}" for name, count in counted["by_state"].items())
    say(f"{action.value}: {counted['matched']}" + (f" ({states})" if states else ""))
    if not yes and not typer.confirm("Go on?", err=True):
        raise typer.Exit(1)
    operation = call("POST", "/v1/bulk", body=body)
    if wait:
        operation = _follow(operation)
    show(operation, as_json)
    if operation["state"] == "stopped":
        raise typer.Exit(1)


def _follow(operation: dict[str, Any]) -> dict[str, Any]:
    """Look until it has ended. Ctrl-C ends the looking alone."""
    with Console(stderr=True).status("") as status:
        while operation["state"] == "running":
            judged = (f"{operation[name]} {name}" for name in ("succeeded", "failed", "pending") if operation["canary"])
            status.update(", ".join([f"{operation['taken']} of {operation['matched']}", *judged]))
            time.sleep(FOLLOW_SECONDS)
            operation = call("GET", f"/v1/bulk/{operation['id']}")
    return operation


@app.command("list")
def list_newest(limit: Limit = 20, as_json: Json = False) -> None:
    """Bulk operations, the latest first.

    Example: mainspring bulk list
    """
    columns = ("id", "action", "state", "matched", "taken", "missed", "succeeded", "failed", "author", "created_at")
    show_list(call("GET", "/v1/bulk", limit=limit), columns, as_json)


@app.command("show")
def show_one(operation_id: str, as_json: Json = False) -> None:
    """A bulk operation, and how far it is.

    Example: mainspring bulk show 01a228fd-d2d0-799d-870e-9d4fbcc2f891
    """
    show(call("GET", f"/v1/bulk/{operation_id}"), as_json)


@app.command()
def cancel(operation_id: str, as_json: Json = False) -> None:
    """Take no more; what was done stays done.

    Example: mainspring bulk cancel 01a228fd-d2d0-799d-870e-9d4fbcc2f891
    """
    show(call("POST", f"/v1/bulk/{operation_id}/cancel"), as_json)
