"""``mainspring dev``: everything on this machine, until Ctrl-C."""

from __future__ import annotations

import sys
import time
from typing import Annotated

import typer

from mainspring.devstack import start_stack
from mainspring.devstack.fleet import Fleet, open_fleet
from mainspring.domain.errors import Unavailable

Modules = Annotated[list[str] | None, typer.Argument(help="Modules with tasks, such as myapp.tasks.")]
PORT = 8080


def dev(modules: Modules = None, port: int = PORT) -> None:
    """Start Postgres, RabbitMQ and all services on this machine; stop them with Ctrl-C."""
    say("starting Postgres and RabbitMQ …")
    try:
        with start_stack() as stack, open_fleet(stack.environment(), stack.folder) as fleet:
            fleet.migrate()
            for name in ("scheduler", "dispatcher", "dlq_handler"):
                fleet.start(name)
            fleet.start("api", port=port)
            if modules:
                fleet.start("worker", *modules)
            fleet.wait_ready()
            say(f"ready: the API is at http://127.0.0.1:{port} (its description: /docs); logs are in {stack.folder}")
            say("try: mainspring submit TASK --payload '{…}' --wait; Ctrl-C stops everything")
            _watch(fleet)
    except KeyboardInterrupt:
        say("stopped")


def _watch(fleet: Fleet) -> None:
    while True:
        for one in fleet.services:
            if not one.is_running:
                raise Unavailable(f"{one.name} ended by itself:\n{one.log_tail()}")
        time.sleep(0.5)


def say(text: str) -> None:
    """Tell the person at the terminal."""
    print(text, file=sys.stderr)
