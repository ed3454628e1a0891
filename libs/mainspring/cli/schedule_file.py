"""``mainspring schedules apply``: the schedules that a file has, with what would change shown first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from rich.console import Console
from rich.markup import escape

from mainspring.cli.api_client import call
from mainspring.cli.output import Json, say
from mainspring.domain.errors import InvalidInput, NotFound


class _Loader(yaml.SafeLoader):
    """YAML with the values of JSON: a date is a text there, and bytes are none."""

    yaml_implicit_resolvers = {  # noqa: RUF012  as the base class has it
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def apply(
    file: Annotated[Path, typer.Argument(help="YAML: `schedules:` with a list of them.")],
    prune: Annotated[bool, typer.Option("--prune", help="Delete the schedules that the file doesn't name.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    as_json: Json = False,
) -> None:
    """Make the schedules those of a file: all of them, or none; what would change is shown first.

    Example: mainspring schedules apply schedules.yaml --dry-run
    """
    if as_json and not yes and not dry_run:
        raise InvalidInput("yes", "with --json nobody is asked: give --yes, or --dry-run")
    body = {"schedules": read(file), "prune": prune}
    planned = call("POST", "/v1/schedules/apply", body=body | {"dry_run": True})
    if not as_json:
        _show(planned)
    has_changes = planned["created"] or planned["changed"] or planned["deleted"]
    if dry_run or not has_changes:
        if as_json:
            print(json.dumps(planned))
        return
    if not yes and not typer.confirm("apply?", err=True):
        raise typer.Exit(1)
    # What is applied is what was shown, or nothing.
    done = call("POST", "/v1/schedules/apply", body=body | {"digest": planned["digest"]})
    if as_json:
        print(json.dumps(done))
    else:
        say("applied")


def read(file: Path) -> list[dict[str, Any]]:
    """The schedules of a file. Raises NotFound; InvalidInput when it isn't what `apply` takes."""
    try:
        document = yaml.load(file.read_text("utf-8"), _Loader)  # noqa: S506  a safe loader, with less
        json.dumps(document, allow_nan=False).encode()
    except FileNotFoundError:
        raise NotFound(f"there is no file {file}") from None
    except RecursionError:
        raise InvalidInput("file", "is nested too deeply, or within itself") from None
    except (yaml.YAMLError, ValueError, TypeError, OSError) as error:
        raise InvalidInput("file", f"can't be read as YAML with JSON's values: {error}") from None
    if not isinstance(document, dict) or set(document) != {"schedules"} or not isinstance(document["schedules"], list):
        raise InvalidInput("file", "must have one key, schedules, with a list")
    return [_entry(index, one) for index, one in enumerate(document["schedules"])]


def _entry(index: int, one: object) -> dict[str, Any]:
    if not isinstance(one, dict):
        raise InvalidInput(f"schedules.{index}", "must be a mapping")
    return one


def _show(planned: dict[str, Any]) -> None:
    console = Console()
    for name in planned["created"]:
        console.print(f"[green]+ {escape(name)}[/]")
    for one in planned["changed"]:
        console.print(f"[yellow]~ {escape(one['name'])}[/]")
        for field, after in one["after"].items():
            before = one["before"].get(field)
            console.print(f"    {field}: {escape(json.dumps(before))} → {escape(json.dumps(after))}")
    for name in planned["deleted"]:
        console.print(f"[red]- {escape(name)}[/]")
    counts = ", ".join(f"{len(planned[what])} {what}" for what in ("created", "changed", "deleted", "unchanged"))
    say(counts)
