"""Files that are applied: read as YAML, what would change shown first, and applied as it was shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from rich.console import Console
from rich.markup import escape

from mainspring.cli.api_client import call
from mainspring.cli.output import say
from mainspring.domain.errors import InvalidInput, NotFound

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")]
Yes = Annotated[bool, typer.Option("--yes", help="Don't ask.")]


class _Loader(yaml.SafeLoader):
    """YAML with the values of JSON: a date is a text there, and bytes are none."""

    yaml_implicit_resolvers = {  # noqa: RUF012  as the base class has it
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def apply(path: str, body: dict[str, Any], *, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Show what POST ``path`` would change, ask, and have that done, or nothing."""
    if as_json and not yes and not dry_run:
        raise InvalidInput("yes", "with --json nobody is asked: give --yes, or --dry-run")
    planned = call("POST", path, body=body | {"dry_run": True})
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
    done = call("POST", path, body=body | {"digest": planned["digest"]})
    if as_json:
        print(json.dumps(done))
    else:
        say("applied")


def read(file: Path, *keys: str) -> dict[str, list[dict[str, Any]]]:
    """The lists of a file, which has some of these keys and no other. Raises NotFound; InvalidInput."""
    try:
        document = yaml.load(file.read_text("utf-8"), _Loader)  # noqa: S506  a safe loader, with less
        json.dumps(document, allow_nan=False).encode()
    except FileNotFoundError:
        raise NotFound(f"there is no file {file}") from None
    except RecursionError:
        raise InvalidInput("file", "is nested too deeply, or within itself") from None
    except (yaml.YAMLError, ValueError, TypeError, OSError) as error:
        raise InvalidInput("file", f"can't be read as YAML with JSON's values: {error}") from None
    if not isinstance(document, dict) or not document or not set(document) <= set(keys):
        raise InvalidInput("file", f"must have {' or '.join(keys)}, with a list, and nothing else")
    return {key: _entries(key, entries) for key, entries in document.items()}


def _entries(key: str, entries: object) -> list[dict[str, Any]]:
    if not isinstance(entries, list):
        raise InvalidInput("file", f"must have a list at {key}")
    for index, one in enumerate(entries):
        if not isinstance(one, dict):
            raise InvalidInput(f"{key}.{index}", "must be a mapping")
    return entries


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
