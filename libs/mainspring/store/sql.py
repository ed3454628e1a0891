"""Named SQL from ``queries/*.sql``: each query follows a line ``-- name: <name>``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import Any

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def load(aggregate: str) -> dict[str, str]:
    """The queries of one file, by name."""
    text = files("mainspring.store").joinpath("queries", f"{aggregate}.sql").read_text()
    parts = _NAME.split(text)
    return {name: body.strip() for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def load_all() -> dict[str, str]:
    """Every query of every file, as ``<aggregate>.<name>``: for the tests that prepare each one."""
    folder = files("mainspring.store").joinpath("queries")
    names = sorted(entry.name.removesuffix(".sql") for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return {f"{aggregate}.{name}": query for aggregate in names for name, query in load(aggregate).items()}


def columns(rows: Iterable[Sequence[Any]]) -> list[Sequence[Any]]:
    """One array for each column of ``rows``, for a statement that unnests them side by side.

    Where no row says anything the array is empty: unnest fills it up with NULLs, and nothing is encoded for it.
    """
    return [() if column.count(None) == len(column) else column for column in zip(*rows, strict=True)]
