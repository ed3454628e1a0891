"""Tasks whose handler takes many jobs in one call: ``@batch_task`` and the ``Batch`` that it gets.

Each job of a batch is a job like any other, with its own attempts, retries and result; what they share is the call.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from inspect import Parameter, signature
from typing import Any, Generic, TypeVar, cast, get_args, get_origin, get_type_hints
from uuid import UUID

from pydantic import BaseModel, ConfigDict, TypeAdapter

from mainspring.context import Connection
from mainspring.domain.errors import InvalidInput, Misconfigured
from mainspring.domain.job import DEFAULT_QUEUE
from mainspring.domain.labels import check_labels
from mainspring.domain.retry import DEFAULT, RetryPolicy
from mainspring.tasks import Task, check_options

__all__ = ["Batch", "BatchJob", "BatchTask", "batch_task"]

Payload = TypeVar("Payload", bound=BaseModel)
MOST_JOBS = 1000
LONGEST_WAIT = 1.0
_NOT_ANSWERED = object()
#: Infinity must not become null in silence: written as such, it is refused with its path.
_RESULT = TypeAdapter[Any](Any, config=ConfigDict(ser_json_inf_nan="constants"))


@dataclass(slots=True, eq=False)
class BatchJob(Generic[Payload]):
    """One job of a batch: who it is, and what becomes of it."""

    job_id: UUID
    payload: Payload
    attempt: int
    fence: int
    #: The stable name of this job's effect, the same over all attempts: give it to outside systems.
    idempotency_key: str
    schedule: str | None = None
    nominal_at: datetime | None = None
    traceparent: str | None = None
    #: What its handler has said: a result, an exception; or nothing yet.
    _answer: Any = field(default=_NOT_ANSWERED, init=False, repr=False)

    def succeed(self, result: Any = None) -> None:
        """It has succeeded. So does one of which nothing is said, when the handler returns."""
        self._answer = result

    def fail(self, error: BaseException) -> None:
        """It has failed, and the others haven't: ``error`` as if its own handler had raised it.

        ``Permanent``, ``RetryAfter`` and ``Snooze`` mean here what they mean there.
        """
        self._answer = _Failed(error)

    @property
    def is_answered(self) -> bool:
        """True when the handler has said what becomes of it."""
        return self._answer is not _NOT_ANSWERED

    @property
    def error(self) -> BaseException | None:
        """What it failed with."""
        return self._answer.error if isinstance(self._answer, _Failed) else None

    @property
    def result(self) -> Any:
        """What it succeeded with."""
        return None if self.error or not self.is_answered else self._answer


@dataclass(frozen=True, slots=True)
class _Failed:
    error: BaseException


class Batch(ABC, Generic[Payload]):
    """The jobs of one call, at least one, in the order in which they came. Iterate over it."""

    def __init__(self, jobs: list[BatchJob[Payload]]) -> None:
        self._jobs = jobs

    def __iter__(self) -> Iterator[BatchJob[Payload]]:
        return iter(self._jobs)

    def __len__(self) -> int:
        return len(self._jobs)

    @abstractmethod
    def transaction(self) -> AbstractAsyncContextManager[Connection]:
        """Writes made in this block commit together with the completions of all jobs that succeed, or not at all.

        Like ``JobContext.transaction``: the commit follows when the handler has returned. When one of these jobs may
        not complete any more (its lease is lost, or its effect exists already), nothing is committed: the others run
        again, uncounted. What was written for a job that fails is committed with the others: write for those that
        succeed. Once in a call; async handlers only. Raises RuntimeError on a second block.
        """


@dataclass(frozen=True)
class BatchTask(Task[..., Any], Generic[Payload]):
    """A task whose handler takes a ``Batch``."""

    most: int = 0
    wait: float = 0.0


def batch_task(
    name: str,
    *,
    most: int = 100,
    wait: float = 0.0,
    queue: str = DEFAULT_QUEUE,
    timeout: float | timedelta = 300,
    retry: RetryPolicy = DEFAULT,
    circuit: str | None = None,
    requires: Iterable[str] = (),
) -> Callable[[Callable[[Batch[Payload]], Awaitable[Any] | Any]], BatchTask[Payload]]:
    """Make a function a task that takes up to ``most`` jobs in one call. Its one parameter is a ``Batch[Model]``, where
    the pydantic ``Model`` is the payload of each.

    Jobs that start together in one runner make a batch; ``wait``: after the first, up to so many seconds (1 at most)
    for more. Each job takes a slot, so a batch is never larger than a worker's slots. ``timeout`` bounds the call. The
    other options are those of ``task``. Raises InvalidInput for a bad one.
    """
    limit = check_options(name, queue, timeout, circuit)
    labels = check_labels("requires", requires)
    if not 1 <= most <= MOST_JOBS:
        raise InvalidInput("most", f"must be from 1 to {MOST_JOBS}")
    if not 0 <= wait <= LONGEST_WAIT:
        raise InvalidInput("wait", f"must be from 0 to {LONGEST_WAIT:g} seconds")

    def declare(handler: Callable[[Batch[Payload]], Awaitable[Any] | Any]) -> BatchTask[Payload]:
        model = _payload_of(name, handler)
        taken = cast("Callable[..., Any]", handler)
        fixed = (name, taken, queue, limit, retry, model, _RESULT, circuit)
        return BatchTask(*fixed, requires=labels, most=most, wait=wait)

    return declare


def _payload_of(name: str, handler: Callable[..., Any]) -> type[BaseModel]:
    parameters = list(signature(handler).parameters.values())
    hints = get_type_hints(handler)
    if len(parameters) == 1 and parameters[0].kind is not Parameter.KEYWORD_ONLY:
        batch = hints.get(parameters[0].name)
        arguments = get_args(batch)
        if get_origin(batch) is Batch and isinstance(arguments[0], type) and issubclass(arguments[0], BaseModel):
            return arguments[0]
    raise Misconfigured(f"the handler of {name} needs one parameter, of type Batch[Model] with a pydantic model")
