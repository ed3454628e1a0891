"""``mainspring schedules backfill`` and ``backfills``."""

from __future__ import annotations

from typing import Annotated

import typer

from mainspring.cli.api_client import call
from mainspring.cli.output import Json, Limit, show, show_list


def backfill(
    name: str,
    start: Annotated[str, typer.Option("--from", help="The first instant.")],
    until: Annotated[str, typer.Option(help="The end, itself excluded; not in the future.")],
    parallel: Annotated[int, typer.Option(help="Jobs live at once; 1: one after another.")] = 1,
    as_json: Json = False,
) -> None:
    """Make jobs of past nominal times that have none; they never stand in the way of the live runs.

    Example: mainspring schedules backfill nightly --from 2026-03-01T00:00:00Z --until 2026-03-08T00:00:00Z
    """
    body = {"start_at": start, "end_at": until, "parallel": parallel}
    show(call("POST", f"/v1/schedules/{name}/backfill", body=body), as_json)


def list_all(name: str, limit: Limit = 20, as_json: Json = False) -> None:
    """The backfills of a schedule, the latest first.

    Example: mainspring schedules backfills nightly
    """
    shown = ("id", "state", "start_at", "end_at", "parallel", "nominal_times", "jobs", "next_nominal_at")
    show_list(call("GET", f"/v1/schedules/{name}/backfills", limit=limit), shown, as_json)
