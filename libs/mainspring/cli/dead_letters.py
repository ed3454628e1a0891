"""``mainspring dlq``."""

from __future__ import annotations

import typer

from mainspring.cli.api_client import call
from mainspring.cli.output import Json, show, show_list

app = typer.Typer(no_args_is_help=True, help="Look after dead letters.")


@app.command("list")
def list_newest(as_json: Json = False) -> None:
    """The newest dead letters."""
    items = call("GET", "/v1/dead-letters")["items"]
    show_list(items, ("id", "task", "queue", "reason", "outcome", "died_at", "alerted_at"), as_json)


@app.command()
def redrive(job_id: str, as_json: Json = False) -> None:
    """Put a dead job back to work, with a fresh attempt budget."""
    show(call("POST", f"/v1/dead-letters/{job_id}/redrive"), as_json)
