"""Importing users' modules and collecting their tasks."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mainspring.batches import BatchTask
from mainspring.domain.errors import Misconfigured
from mainspring.tasks import Task, TaskRegistry


def load(modules: Iterable[str]) -> TaskRegistry:
    """The tasks of ``modules``, imported with the working directory on the path.

    Raises Misconfigured when a module can't be imported, or none of them has a task.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    registry = TaskRegistry()
    names = list(modules)
    for name in names:
        try:
            registry.add_module(importlib.import_module(name))
        except Exception as error:
            raise Misconfigured(f"module {name} can't be imported: {type(error).__name__}: {error}") from error
    if not len(registry):
        raise Misconfigured(f"no @task in {', '.join(names) or 'no modules'}")
    return registry


def catalogue_entry(one: Task[Any, Any]) -> dict[str, Any]:
    """What the catalogue keeps of a task, as JSON values."""
    return {
        "name": one.name,
        "queue": one.queue,
        "timeout_seconds": one.timeout.total_seconds(),
        "retry": one.retry.as_json(),
        "payload_schema": one.payload_schema(),
        "circuit": one.circuit,
        "slots": one.slots,
        "requires": list(one.requires),
        "batch": one.most if isinstance(one, BatchTask) else None,
    }
