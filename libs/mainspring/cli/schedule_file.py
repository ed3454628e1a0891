"""``mainspring schedules apply``: the schedules that a file has, with what would change shown first."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mainspring.cli import apply_file
from mainspring.cli.output import Json


def apply(
    file: Annotated[Path, typer.Argument(help="YAML: `schedules:` with a list of them.")],
    prune: Annotated[bool, typer.Option("--prune", help="Delete the schedules that the file doesn't name.")] = False,
    dry_run: apply_file.DryRun = False,
    yes: apply_file.Yes = False,
    as_json: Json = False,
) -> None:
    """Make the schedules those of a file: all of them, or none; what would change is shown first.

    Example: mainspring schedules apply schedules.yaml --dry-run
    """
    body = {**apply_file.read(file, "schedules"), "prune": prune}
    apply_file.apply("/v1/schedules/apply", body, dry_run=dry_run, yes=yes, as_json=as_json)
