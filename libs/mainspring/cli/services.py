"""Starting a service: this process becomes it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Annotated

import typer

SERVICES = {
    "api": "Accept jobs over HTTP.",
    "scheduler": "Fire schedules, release due jobs, find what is lost.",
    "dispatcher": "Admit jobs under their limits and route them to workers.",
    "dlq-handler": "Record dead letters and send alerts.",
}
Modules = Annotated[list[str] | None, typer.Argument(help="Modules with tasks, such as myapp.tasks.")]


def add_to(app: typer.Typer) -> None:
    """Add a command for each service."""
    for name, text in SERVICES.items():
        app.command(name, help=f"{text}\n\nExample: mainspring {name}")(_starter(name))
    app.command("worker", help="Run the tasks of these modules.\n\nExample: mainspring worker myapp.tasks")(worker)


def worker(modules: Modules = None) -> None:
    """Become a worker."""
    _become("worker", *(modules or ()))


def _starter(name: str) -> Callable[[], None]:
    def start() -> None:
        _become(name)

    return start


def _become(name: str, *arguments: str) -> None:
    module = f"mainspring_services.{name.replace('-', '_')}"
    os.execv(sys.executable, [sys.executable, "-m", module, *arguments])  # noqa: S606  our own module, no shell
