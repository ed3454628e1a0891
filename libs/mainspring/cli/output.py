"""Printing: a table for people, or one JSON document and nothing else on stdout."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def show(document: dict[str, Any], as_json: bool) -> None:
    """One thing, field by field."""
    if as_json:
        print(json.dumps(document))
        return
    table = Table(show_header=False, box=None)
    for name, value in document.items():
        if value not in (None, [], {}):
            table.add_row(f"[bold]{name}[/]", value if isinstance(value, str) else json.dumps(value))
    Console().print(table)


def show_list(items: Sequence[dict[str, Any]], columns: Sequence[str], as_json: bool) -> None:
    """Many things, one a line."""
    if as_json:
        print(json.dumps({"items": items}))
        return
    table = Table(*columns)
    for item in items:
        table.add_row(*("" if item.get(name) is None else str(item[name]) for name in columns))
    Console().print(table)
