"""``mainspring queues`` and ``mainspring workers``."""

from __future__ import annotations

from typing import Annotated

import typer

from mainspring.cli.api_client import call
from mainspring.cli.output import Json, show, show_list
from mainspring.domain.errors import InvalidInput

app = typer.Typer(no_args_is_help=True, help="Look after queues.")
workers_app = typer.Typer(no_args_is_help=True, help="Look at the workers.")


@app.command("list")
def list_all(as_json: Json = False) -> None:
    """All queues by name."""
    show_list(call("GET", "/v1/queues"), ("name", "paused", "note", "release_window", "concurrency"), as_json)


@app.command()
def pause(
    name: str,
    note: Annotated[str | None, typer.Option(help="For those who look later.")] = None,
    as_json: Json = False,
) -> None:
    """Pause a queue: no job of it starts; those that run go on."""
    show(call("POST", f"/v1/queues/{name}/pause", note=note), as_json)


@app.command()
def resume(name: str, as_json: Json = False) -> None:
    """Resume a queue."""
    show(call("POST", f"/v1/queues/{name}/resume"), as_json)


@app.command("set")
def save(
    name: str,
    window: Annotated[int | None, typer.Option(help="Jobs of it that may be in the broker at once.")] = None,
    concurrency: Annotated[int | None, typer.Option(help="Jobs that may hold a slot at once; 0: no limit.")] = None,
    as_json: Json = False,
) -> None:
    """Make a queue, or change its settings.

    Example: mainspring queues set billing --concurrency 10
    """
    given = {"release_window": window, "concurrency": concurrency}
    # A limit of 0 means that there is none, which the api is told as null.
    body = {field: value or None for field, value in given.items() if value is not None}
    if not body:
        raise InvalidInput("settings", "give --window or --concurrency")
    show(call("PUT", f"/v1/queues/{name}", body=body), as_json)


@workers_app.command("list")
def list_workers(as_json: Json = False) -> None:
    """The workers that live."""
    columns = ("id", "host", "pid", "version", "queues", "slots", "free_slots", "beat_at")
    show_list(call("GET", "/v1/workers"), columns, as_json)
