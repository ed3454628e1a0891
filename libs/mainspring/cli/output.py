"""Printing: a table for people, or one JSON document and nothing else on stdout."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

_ID_WIDTH = 36
Limit = Annotated[int, typer.Option(min=1, help="How many at most.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def show(document: dict[str, Any], as_json: bool) -> None:
    """One thing, field by field."""
    if as_json:
        print(json.dumps(document))
        return
    table = Table(show_header=False, box=None)
    for name, value in document.items():
        if value not in (None, [], {}):
            table.add_row(f"[bold]{name}[/]", escape(value if isinstance(value, str) else json.dumps(value)))
    Console().print(table)


def show_list(page: dict[str, Any], columns: Sequence[str], as_json: bool) -> None:
    """A page of things, one a line; that there are none, or more, is said on stderr."""
    if as_json:
        print(json.dumps(page))
        return
    if not page["items"]:
        say("none")
        return
    # A terminal is narrow: no lines between, and no column in which there is nothing to see.
    shown = [name for name in columns if any(item.get(name) not in (None, "", []) for item in page["items"])]
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1))
    for name in shown:
        # An id is there to be copied: it is never cut.
        table.add_column(name, min_width=_ID_WIDTH if name == "id" else None)
    for item in page["items"]:
        table.add_row(*(_cell(name, item.get(name)) for name in shown))
    Console().print(table)
    if page.get("next"):
        say(f"the first {len(page['items'])}; more with --limit")


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if name.endswith("_at"):
        # To the second; `--json` has the rest.
        return str(value)[:19].replace("T", " ") + "Z"
    return ", ".join(map(str, value)) if isinstance(value, list) else escape(str(value))


def say(message: str) -> None:
    """A word to the person, beside the output."""
    Console(stderr=True).print(message, style="dim")
