"""A request to run a task, checked; and the references that travel in messages.

Whatever is accepted here can be stored, read back and shown: the edge refuses the rest, naming the field.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

from mainspring.domain.errors import InvalidInput
from mainspring.domain.retry import RetryPolicy
from mainspring.domain.unique import Unique

NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}")
DEFAULT_QUEUE = "default"
DEFAULT_PRIORITY = 5
LOWEST_PRIORITY = 9
PRIORITIES = LOWEST_PRIORITY + 1
DEFAULT_TIMEOUT = timedelta(seconds=300)
LONGEST_TIMEOUT = timedelta(days=30)
MOST_PAYLOAD_BYTES = 256 * 1024
MOST_TAGS = 32
#: Jobs that travel in one message at most.
MOST_REFS = 100
DEEPEST_PAYLOAD = 64
#: A number with more digits is stored by jsonb and then refused by Python's json.loads (limit 4,300).
MOST_DIGITS = 308
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = datetime(9000, 1, 1, tzinfo=UTC)


class JobRef(NamedTuple):
    """A job and its ticket: the fence of the release, admission or retry that sent the message."""

    id: UUID
    ticket: int


@dataclass(frozen=True, slots=True)
class JobRequest:
    """One job to submit. What is None is taken from the task's entry in the catalogue, or a default.

    ``payload`` is JSON text of an object; ``run_at`` is aware.
    """

    task: str
    payload: str = "{}"
    queue: str | None = None
    priority: int | None = None
    run_at: datetime | None = None
    delay: timedelta | None = None
    timeout: timedelta | None = None
    retry: RetryPolicy | None = None
    idempotency_key: str | None = None
    tags: tuple[str, ...] = ()
    expires_at: datetime | None = None
    traceparent: str | None = None
    schedule: str | None = None
    nominal_at: datetime | None = None
    unique: Unique | None = None

    def __post_init__(self) -> None:
        check_name("task", self.task)
        if self.queue is not None:
            check_name("queue", self.queue)
        if self.priority is not None and not (isinstance(self.priority, int) and 0 <= self.priority <= 9):
            raise InvalidInput("priority", "must be a whole number from 0 (first) to 9")
        if self.run_at is not None and self.delay is not None:
            raise InvalidInput("delay", "give run_at or delay, not both")
        check_instant("run_at", self.run_at)
        check_instant("expires_at", self.expires_at)
        _check_span("timeout_seconds", self.timeout, timedelta(milliseconds=1), LONGEST_TIMEOUT)
        _check_span("delay_seconds", self.delay, timedelta(0), timedelta(days=3660))
        check_key(self.idempotency_key)
        _check_tags(self.tags)

    def with_options(self, **options: Any) -> JobRequest:
        """The same request with those of ``options`` (its fields by name) that are not None. Raises InvalidInput."""
        given = {name: value for name, value in options.items() if value is not None}
        return replace(self, **given) if given else self


def check_name(field: str, name: object) -> str:
    """A queue's, task's or schedule's name. Raises InvalidInput."""
    if not isinstance(name, str) or not _is_name(name):
        raise InvalidInput(field, "must match [a-z0-9][a-z0-9_.-]{0,62}")
    return name


@lru_cache(maxsize=8192)
def _is_name(text: str) -> bool:
    """Every job of a task asks for the same few names again."""
    return NAME.fullmatch(text) is not None


def check_instant(field: str, instant: datetime | None) -> None:
    """An aware instant that Postgres and Python both keep. Raises InvalidInput."""
    if instant is None:
        return
    if instant.tzinfo is None:
        raise InvalidInput(field, "needs a zone or an offset, such as 2026-01-31T09:00:00Z")
    if not EARLIEST <= instant <= LATEST:
        raise InvalidInput(field, "must lie between the years 1970 and 9000")


def _check_span(field: str, span: timedelta | None, least: timedelta, most: timedelta) -> None:
    if span is not None and not least <= span <= most:
        raise InvalidInput(field, f"must be from {least.total_seconds():g} to {most.total_seconds():g} seconds")


def check_key(key: str | None) -> None:
    """An idempotency key: 1 to 255 printable characters. Raises InvalidInput."""
    if key is not None and not (1 <= len(key) <= 255 and key.isprintable()):
        raise InvalidInput("idempotency_key", "must be 1 to 255 printable characters")


def _check_tags(tags: tuple[str, ...]) -> None:
    if len(tags) > MOST_TAGS:
        raise InvalidInput("tags", f"at most {MOST_TAGS}")
    for index, tag in enumerate(tags):
        if not (isinstance(tag, str) and 1 <= len(tag) <= 100 and tag.isprintable()):
            raise InvalidInput(f"tags.{index}", "must be 1 to 100 printable characters")


def payload_text(payload: Mapping[str, Any], field: str = "payload") -> str:
    """JSON text of a payload or result object. Raises InvalidInput naming the path of what can't be kept."""
    if not isinstance(payload, dict):
        raise InvalidInput(field, "must be an object")
    return json_text(payload, field)


def json_text(value: object, field: str) -> str:
    """JSON text that Postgres keeps and Python reads back. Raises InvalidInput naming the path."""
    for path, message in _faults(value, field, 0):
        raise InvalidInput(path, message)
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(field, f"is not JSON: {error}") from None
    if size > MOST_PAYLOAD_BYTES:
        raise InvalidInput(field, f"is {size} bytes of JSON; at most {MOST_PAYLOAD_BYTES}")
    return text


def _faults(value: object, path: str, depth: int) -> Iterator[tuple[str, str]]:
    if depth > DEEPEST_PAYLOAD:
        yield path, f"is nested deeper than {DEEPEST_PAYLOAD} levels"
    elif isinstance(value, str):
        yield from _text_faults(value, path)
    elif isinstance(value, bool) or value is None:
        return
    elif isinstance(value, int | float):
        yield from _number_faults(value, path)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _text_faults(key, f"{path}.{_shown(key)}")
            yield from _faults(item, f"{path}.{_shown(key)}", depth + 1)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _faults(item, f"{path}.{index}", depth + 1)
    else:
        yield path, f"is a {type(value).__name__}, which JSON can't hold"


def _text_faults(text: object, path: str) -> Iterator[tuple[str, str]]:
    if not isinstance(text, str):
        yield path, "has a key that is not text"
    elif "\0" in text:
        yield path, "holds a NUL character, which Postgres can't store"
    elif any("\ud800" <= character <= "\udfff" for character in text):
        yield path, "holds half of a surrogate pair, which is no character"


def _number_faults(number: float, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(number, float) and not math.isfinite(number):
        yield path, "is not a finite number"
    elif isinstance(number, int) and abs(number) >= 10**MOST_DIGITS:
        yield path, f"has more than {MOST_DIGITS} digits"


def _shown(key: object) -> str:
    return str(key)[:100].encode("ascii", "backslashreplace").decode().replace("\0", "\\x00")
