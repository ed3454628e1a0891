"""``mainspring dev``: everything on this machine, until Ctrl-C."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mainspring.domain.errors import Misconfigured, Unavailable

if TYPE_CHECKING:
    from mainspring.devstack import Stack
    from mainspring.devstack.fleet import Fleet, ServiceProcess

Modules = Annotated[list[str] | None, typer.Argument(help="Modules with tasks, such as myapp.tasks.")]
PORT = 8080
#: Comes with every worker of `dev`, so that a job in any language can be tried.
HTTP_TASK = "mainspring.http_task"
LOOK_MILLISECONDS = 500
MOST_EXAMPLES = 3
TASKS = (
    "SELECT coalesce(json_object_agg(name, payload_schema ORDER BY name = 'http', name), '{}') FROM mainspring.tasks"
)
#: A value of each JSON type, for an example that a person changes.
PLACEHOLDERS: dict[str, Any] = {"string": "…", "integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}}


def dev(modules: Modules = None, port: int = PORT) -> None:
    """Start Postgres, RabbitMQ and all services on this machine; stop them with Ctrl-C.

    The worker starts again whenever a Python file below this folder changes.

    Example: mainspring dev myapp.tasks
    """
    from mainspring.devstack import start_stack
    from mainspring.devstack.errors import RefusedError
    from mainspring.devstack.fleet import open_fleet

    say("starting Postgres and RabbitMQ …")
    try:
        with start_stack(containers=True) as stack, open_fleet(stack.environment(), stack.folder, **_knobs()) as fleet:
            fleet.migrate()
            for name in ("scheduler", "dispatcher", "dlq_handler"):
                fleet.start(name)
            fleet.start("api", port=port)
            worker = fleet.start("worker", *dict.fromkeys([*(modules or ()), HTTP_TASK]))
            for one in fleet.services:
                if one is not worker:
                    one.wait_ready()
            with contextlib.suppress(RefusedError):  # it can't load its modules: said below, and mended by a change
                worker.wait_ready()
            _welcome(stack, port)
            _keep(fleet, worker, _changes())
    except KeyboardInterrupt:
        say("stopped")


def _knobs() -> dict[str, str]:
    """Settings of the person's that are for the worker and the http task."""
    kept = ("MAINSPRING_WORKER_", "MAINSPRING_HTTP_")
    return {name: value for name, value in os.environ.items() if name.startswith(kept)}


def _changes() -> Iterator[set[str]]:
    """The Python files below this folder that have changed; now and then an empty set."""
    try:
        from watchfiles import PythonFilter, watch
    except ImportError:
        raise Misconfigured("`mainspring dev` needs more: pip install 'mainspring[dev]'") from None
    found = watch(
        Path.cwd(),
        watch_filter=PythonFilter(),
        rust_timeout=LOOK_MILLISECONDS,
        yield_on_timeout=True,
        raise_interrupt=True,
    )
    for changes in found:
        yield {path for _, path in changes}


#: Lines of the worker's log that say why it ended: each of its runners has one, and what follows on the stop.
TAIL = 8 + 2 * (os.cpu_count() or 1)


def _keep(fleet: Fleet, worker: ServiceProcess, changes: Iterator[set[str]]) -> None:
    """Until Ctrl-C. A worker that can't load what is being written waits for the next change."""
    is_lost = False
    for changed in changes:
        if changed:
            _reload(worker, sorted(changed))
            is_lost = False
        _check_others(fleet, worker)
        if not worker.is_running and not is_lost:
            say(f"the worker has ended; it starts again with the next change:\n{worker.log_tail(TAIL)}")
            is_lost = True


def _welcome(stack: Stack, port: int) -> None:
    """What is there, and what to try next."""
    url = f"http://127.0.0.1:{port}"
    if port != PORT:
        say(f"for the commands below: export MAINSPRING_API_URL={url}")
    say(f"ready: the API is at {url} (its description: {url}/docs); logs are in {stack.folder}")
    tasks: dict[str, Any] = json.loads(stack.postgres.execute(TASKS, stack.postgres.url))
    for name, schema in list(tasks.items())[:MOST_EXAMPLES]:
        say(f"try: mainspring submit {name} --payload '{json.dumps(example(schema), ensure_ascii=False)}' --wait")
    say("and: mainspring jobs list · mainspring queues list · mainspring schedules preview '*/5 * * * *' --count 3")
    say(f"your own programs: MAINSPRING_DATABASE_URL={stack.postgres.url} MAINSPRING_AMQP_URL={stack.rabbitmq.url}")
    say("the worker starts again when a file changes; Ctrl-C stops everything")


def example(schema: dict[str, Any]) -> dict[str, Any]:
    """A payload with the fields that a task asks for, to be filled in."""
    fields = schema.get("properties", {})
    return {name: _value_for(fields.get(name, {})) for name in schema.get("required", ())}


def _value_for(field: dict[str, Any]) -> Any:
    """The field's own example if it has one, else any value of its type."""
    return field.get("examples", [PLACEHOLDERS.get(str(field.get("type")), "…")])[0]


def _reload(worker: ServiceProcess, paths: list[str]) -> None:
    """Start the worker anew; jobs that run are handed back and run again."""
    say(f"changed: {', '.join(Path(path).name for path in paths[:3])}{' …' if len(paths) > 3 else ''}")
    worker.restart()
    say("the worker has started again")


def _check_others(fleet: Fleet, worker: ServiceProcess) -> None:
    """Raise Unavailable when a service has ended by itself."""
    for one in fleet.services:
        if one is not worker and not one.is_running:
            raise Unavailable(f"{one.name} ended by itself:\n{one.log_tail()}")


def say(text: str) -> None:
    """Tell the person at the terminal."""
    print(text, file=sys.stderr)
