"""A whole system on servers of its own: for tests that break those."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from mainspring.devstack import start_stack
from mainspring.devstack.fleet import open_fleet

from .system import System


@contextmanager
def open_own_system(config: Mapping[str, str] | None = None) -> Iterator[System]:
    """The services but workers, on servers that nobody else uses. ``config``: more lines of rabbitmq.conf."""
    given = {name: os.environ.pop(name, None) for name in ("MAINSPRING_DATABASE_URL", "MAINSPRING_AMQP_URL")}
    try:
        with start_stack(durable=False, config=config) as stack:
            urls = {"MAINSPRING_DATABASE_URL": stack.postgres.url, "MAINSPRING_AMQP_URL": stack.rabbitmq.url}
            with open_fleet(urls, stack.folder, PYTHONPATH=str(Path(__file__).parents[1])) as fleet:
                fleet.migrate()
                system = System(stack, fleet, stack.postgres.url)
                yield system
                system.close()
    finally:
        os.environ.update({name: value for name, value in given.items() if value is not None})
