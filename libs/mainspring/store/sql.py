"""Named SQL from ``queries/*.sql``: each query follows a line ``-- name: <name>``."""

from __future__ import annotations

import re
from importlib.resources import files

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
