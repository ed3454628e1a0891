"""``mainspring queues`` and ``mainspring workers``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from mainspring.cli import apply_file
from mainspring.cli.api_client import call
from mainspring.cli.output import Json, show, show_list
from mainspring.domain.errors import InvalidInput

app = typer.Typer(no_args_is_help=True, help="Look after queues.")
workers_app = typer.Typer(no_args_is_help=True, help="Look at the workers.")


@app.command("list")
def list_all(as_json: Json = False) -> None:
    """All queues by name.

    Example: mainspring queues list
    """
    show_list(
        call("GET", "/v1/queues"),
        ("name", "paused", "note", "release_window", "concurrency", "fair_by", "default_priority"),
        as_json,
    )


@app.command()
def pause(
    name: str,
    note: Annotated[str | None, typer.Option(help="For those who look later.")] = None,
    as_json: Json = False,
) -> None:
    """Pause a queue: no job of it starts; those that run go on.

    Example: mainspring queues pause billing --note 'a deploy'
    """
    show(call("POST", f"/v1/queues/{name}/pause", note=note), as_json)


@app.command()
def resume(name: str, as_json: Json = False) -> None:
    """Resume a queue.

    Example: mainspring queues resume billing
    """
    show(call("POST", f"/v1/queues/{name}/resume"), as_json)


@app.command("set")
def save(
    name: str,
    window: Annotated[int | None, typer.Option(help="Jobs of it that may be in the broker at once.")] = None,
    concurrency: Annotated[str | None, typer.Option(help="Jobs that may hold a slot at once, or none.")] = None,
    fair_by: Annotated[str | None, typer.Option(help="Where the payload has the key that takes turns.")] = None,
    fair_weights: Annotated[str | None, typer.Option(help="Jobs in a turn by key, as JSON, or none.")] = None,
    priority: Annotated[str | None, typer.Option(help="Of jobs that say none: 0 (first) to 9, or none.")] = None,
    timeout: Annotated[str | None, typer.Option(help="Seconds, for tasks that no worker knows yet, or none.")] = None,
    retry: Annotated[str | None, typer.Option(help="Likewise the retry policy as JSON, or none.")] = None,
    most_waiting: Annotated[str | None, typer.Option(help="Waiting jobs beyond which a submit is refused.")] = None,
    aging: Annotated[str | None, typer.Option(help="Seconds of waiting that are worth a priority, or none.")] = None,
    expiry: Annotated[str | None, typer.Option(help="Seconds after its time a job may still start, or none.")] = None,
    retention: Annotated[
        str | None, typer.Option(help='What it keeps otherwise, as JSON: {"succeeded_days": 2, "last": 1000}; or none.')
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a queue, or change its settings; `none` lifts one.

    Example: mainspring queues set billing --concurrency 10 --priority 2
    """
    given = {
        "release_window": window,
        "concurrency": concurrency,
        "fair_weights": fair_weights,
        "default_priority": priority,
        "default_timeout_seconds": timeout,
        "default_retry": retry,
        "default_expiry_seconds": expiry,
        "aging_seconds": aging,
        "most_waiting": most_waiting,
        "retention": retention,
    }
    body = {field: _value(field, value) for field, value in given.items() if value is not None}
    if fair_by is not None:
        body["fair_by"] = None if fair_by == "none" else fair_by
    if not body:
        raise InvalidInput("settings", "give at least one of them: mainspring queues set --help")
    show(call("PUT", f"/v1/queues/{name}", body=body), as_json)


@app.command("apply")
def apply(
    file: Annotated[Path, typer.Argument(help="YAML: `queues:` and `limits:`, each with a list of them.")],
    prune: Annotated[bool, typer.Option("--prune", help="Lift the limits that the file doesn't name.")] = False,
    dry_run: apply_file.DryRun = False,
    yes: apply_file.Yes = False,
    as_json: Json = False,
) -> None:
    """Make queues and limits those of a file: all of them, or none; what would change is shown first.

    Example: mainspring queues apply queues.yaml --dry-run
    """
    body = {**apply_file.read(file, "queues", "limits"), "prune": prune}
    apply_file.apply("/v1/queues/apply", body, dry_run=dry_run, yes=yes, as_json=as_json)


def _value(field: str, given: str | int) -> Any:
    """An option as JSON values: the api says what is wrong with them."""
    if isinstance(given, int) or given == "none":
        return None if given == "none" else given
    try:
        return json.loads(given)
    except ValueError:
        raise InvalidInput(field, f"{given!r} is neither a number, JSON, nor none") from None


@workers_app.command("list")
def list_workers(as_json: Json = False) -> None:
    """The workers that live.

    Example: mainspring workers list
    """
    columns = ("id", "host", "pid", "version", "queues", "labels", "slots", "free_slots", "beat_at")
    show_list(call("GET", "/v1/workers"), columns, as_json)
