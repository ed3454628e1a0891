"""``mainspring schedules lint``: when an expression or a stored schedule fires in words, and what may not be meant."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from mainspring.cli.api_client import call
from mainspring.cli.output import Json, say
from mainspring.domain.definition import ScheduleDefinition
from mainspring.domain.errors import InvalidInput
from mainspring.domain.lint import lint as warnings_of
from mainspring.domain.reading import reading


def lint(
    cron: Annotated[str | None, typer.Argument(help="An expression; needs no server.")] = None,
    timezone: Annotated[str, typer.Option(help="An IANA zone.")] = "UTC",
    name: Annotated[str | None, typer.Option(help="A stored schedule, with the duration of its runs.")] = None,
    as_json: Json = False,
) -> None:
    """When it fires in words, and what may not be meant: clock changes, days that some months lack, overlaps.

    Example: mainspring schedules lint '30 2 * * *' --timezone America/New_York
    """
    if (cron is None) == (name is None):
        raise InvalidInput("cron", "give an expression, or --name of a schedule")
    found: dict[str, Any] = call("GET", f"/v1/schedules/{name}/lint") if name else _of_expression(str(cron), timezone)
    if as_json:
        print(json.dumps(found))
        return
    print(found["reads"])
    for one in found["warnings"]:
        print(f"{one['code']}: {one['text']}")
    if not found["warnings"]:
        say("no warnings")


def _of_expression(cron: str, timezone: str) -> dict[str, Any]:
    definition = ScheduleDefinition("lint", "lint", cron=cron, timezone=timezone)
    found = warnings_of(definition, now=datetime.now(UTC))
    return {"name": None, "reads": reading(definition), "warnings": [asdict(one) for one in found]}
