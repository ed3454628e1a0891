"""Declaring tasks: ``@task`` makes a function a named unit of work with options and a typed request.

There is no global registry: a ``Task`` is a value in the module that defines it, and a worker collects the
tasks of the modules that it is told to load.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from types import ModuleType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, PydanticUserError, TypeAdapter, ValidationError, create_model

from mainspring.context import JobContext
from mainspring.domain.circuit import check_circuit
from mainspring.domain.errors import InvalidInput, Misconfigured
from mainspring.domain.job import DEFAULT_QUEUE, JobRequest, check_name, payload_text
from mainspring.domain.labels import check_labels
from mainspring.domain.retry import DEFAULT, RetryPolicy

P = ParamSpec("P")
R = TypeVar("R")
#: Of a worker that a job may take.
MOST_SLOTS = 1000
Handler = Callable[Concatenate[JobContext, P], R]


@dataclass(frozen=True)
class Task(Generic[P, R]):
    """A handler with its name and options. Call ``request(…)`` to build a job for it."""

    name: str
    handler: Callable[Concatenate[JobContext, P], Awaitable[R] | R]
    queue: str
    timeout: timedelta
    retry: RetryPolicy
    arguments: type[BaseModel] = field(repr=False)
    returns: TypeAdapter[Any] = field(repr=False)
    circuit: str | None = None
    #: How many of a worker's slots a job takes.
    slots: int = 1
    #: The labels without which a worker doesn't run it.
    requires: tuple[str, ...] = ()

    @cached_property
    def is_async(self) -> bool:
        """True when the handler runs on the runner's event loop, False when in a thread."""
        return inspect.iscoroutinefunction(self.handler)

    def request(self, *args: P.args, **kwargs: P.kwargs) -> JobRequest:
        """A job request for this task, checked against the handler's signature. Raises InvalidInput."""
        if args:
            raise InvalidInput("payload", "give a task's arguments by name")
        payload = self._validated(kwargs).model_dump(mode="json")
        return JobRequest(self.name, payload_text(payload), queue=self.queue, timeout=self.timeout, retry=self.retry)

    def arguments_from(self, payload: str) -> dict[str, Any]:
        """The handler's keyword arguments, read from a job's payload. Raises InvalidInput."""
        # What pydantic keeps of a model's fields is exactly the handler's arguments.
        return dict(self.payload_from(payload).__dict__)

    def payload_from(self, payload: str) -> BaseModel:
        """A job's payload as its model. Raises InvalidInput."""
        try:
            return self.arguments.model_validate_json(payload)
        except ValidationError as error:
            raise _first_fault(error) from None

    def payload_schema(self) -> dict[str, Any]:
        """The JSON schema of the payload, kept in the task catalogue."""
        return self.arguments.model_json_schema()

    def _validated(self, arguments: dict[str, Any]) -> BaseModel:
        try:
            return self.arguments.model_validate(arguments)
        except ValidationError as error:
            raise _first_fault(error) from None


def _first_fault(error: ValidationError) -> InvalidInput:
    first = error.errors(include_url=False, include_input=False)[0]
    return InvalidInput(".".join(["payload", *(str(part) for part in first["loc"])]), first["msg"])


def task(
    name: str,
    *,
    queue: str = DEFAULT_QUEUE,
    timeout: float | timedelta = 300,
    retry: RetryPolicy = DEFAULT,
    circuit: str | None = None,
    slots: int = 1,
    requires: Iterable[str] = (),
) -> Callable[[Callable[Concatenate[JobContext, P], Any]], Task[P, Any]]:
    """Make a function a task. Its first parameter is the JobContext; the payload's fields follow by name.

    ``timeout`` (seconds or timedelta) bounds one attempt. An ``async def`` handler runs on the runner's event
    loop; a plain one in a thread of the runner's process. ``circuit`` names what it depends on: when that fails too
    often, the jobs of all tasks that name it are held. ``slots``: how many of a worker's slots a job takes.
    ``requires``: labels without which a worker doesn't run it, such as ``gpu`` or ``region=eu``. Raises InvalidInput
    for a bad name or option.
    """
    limit = check_options(name, queue, timeout, circuit)
    if not 1 <= slots <= MOST_SLOTS:
        raise InvalidInput("slots", f"must be from 1 to {MOST_SLOTS}")
    labels = check_labels("requires", requires)

    def declare(handler: Callable[Concatenate[JobContext, P], Any]) -> Task[P, Any]:
        arguments, returns = _signature(name, handler)
        return Task(name, handler, queue, limit, retry, arguments, returns, circuit, slots, labels)

    return declare


def check_options(name: str, queue: str, timeout: float | timedelta, circuit: str | None) -> timedelta:
    """What all tasks can be told, checked; returns the timeout. Raises InvalidInput."""
    check_name("task", name)
    check_name("queue", queue)
    if circuit is not None:
        check_circuit(circuit)
    limit = timeout if isinstance(timeout, timedelta) else timedelta(seconds=timeout)
    if limit <= timedelta(0):
        raise InvalidInput("timeout", "must be more than 0 seconds")
    return limit


def _signature(name: str, handler: Callable[..., Any]) -> tuple[type[BaseModel], TypeAdapter[Any]]:
    parameters = list(inspect.signature(handler).parameters.values())
    if not parameters:
        raise Misconfigured(f"the handler of {name} needs a first parameter for its JobContext")
    hints = get_type_hints(handler, include_extras=True)
    fields: dict[str, Any] = {
        parameter.name: (
            hints.get(parameter.name, Any),
            ... if parameter.default is inspect.Parameter.empty else parameter.default,
        )
        for parameter in parameters[1:]
        if parameter.kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    }
    # Infinity must not become null in silence: written as such, it is refused with its path.
    config = ConfigDict(extra="forbid", ser_json_inf_nan="constants")
    return create_model(f"{name} payload", __config__=config, **fields), _adapter(hints.get("return", Any))


def _adapter(kind: Any) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(kind, config=ConfigDict(ser_json_inf_nan="constants"))
    except PydanticUserError:  # a model has a configuration of its own
        return TypeAdapter(kind)


class TaskRegistry:
    """The tasks that one worker knows, by name."""

    def __init__(self, tasks: Iterable[Task[Any, Any]] = ()) -> None:
        self._tasks: dict[str, Task[Any, Any]] = {}
        for one in tasks:
            self.add(one)

    def add(self, one: Task[Any, Any]) -> None:
        """Add a task. Raises Misconfigured when another one has its name."""
        known = self._tasks.setdefault(one.name, one)
        if known is not one:
            raise Misconfigured(f"two tasks are named {one.name}")

    def add_module(self, module: ModuleType) -> None:
        """Add every task that is a name of ``module``."""
        for value in vars(module).values():
            if isinstance(value, Task):
                self.add(value)

    def get(self, name: str) -> Task[Any, Any] | None:
        """The task of that name, or None."""
        return self._tasks.get(name)

    def __iter__(self) -> Iterator[Task[Any, Any]]:
        return iter(self._tasks.values())

    def __len__(self) -> int:
        return len(self._tasks)
