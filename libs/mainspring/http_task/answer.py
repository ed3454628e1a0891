"""What an answer means for the job: its result, a failure to try again, or the end."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from mainspring.domain.errors import InvalidInput, Permanent, RetryAfter
from mainspring.domain.job import json_text

GONE = 410
#: A Retry-After beyond this is taken as this: a job doesn't wait longer than an expiry may lie ahead.
LONGEST_WAIT = timedelta(days=365)


class UnexpectedStatus(Exception):
    """The answer's status is none of the expected ones; the job is tried again by its policy."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A status, the headers by lower-case name, and the beginning of the body."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    is_cut: bool

    def result(self) -> dict[str, Any]:
        """What the job keeps: the body as JSON values if it says it is JSON, else as text."""
        kept: dict[str, Any] = {"status": self.status, "body": self._content()}
        return kept | {"truncated": True} if self.is_cut else kept

    def _content(self) -> Any:
        text = self.body.decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
        kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if not self.is_cut and (kind == "application/json" or kind.endswith("+json")):
            with contextlib.suppress(ValueError, RecursionError, InvalidInput):
                value = json.loads(text)
                json_text(value, "result")  # what can't be kept as values is kept as the text that it came as
                return value
        return text

    def check(self, expected: Collection[int], now: datetime) -> None:
        """Raise what follows from an unexpected status: Permanent, RetryAfter or UnexpectedStatus."""
        if self.status in expected or (not expected and 200 <= self.status < 300):
            return
        said = f"answered {self.status}: {self._content_start()}"
        if 300 <= self.status < 400:
            raise Permanent(f"{said}; redirects are not followed, to {self.headers.get('location', '?')[:200]}")
        if self.status == GONE:
            raise Permanent(said)
        wait = self.retry_after(now)
        if wait is not None:
            raise RetryAfter(wait, said)
        raise UnexpectedStatus(said)

    def _content_start(self) -> str:
        return self.body[:300].decode("utf-8", "replace").replace("\0", "")

    def retry_after(self, now: datetime) -> timedelta | None:
        """How long the server asks to wait (RFC 9110, 10.2.3), by its own clock where it gives a date; or None."""
        text = self.headers.get("retry-after", "").strip()
        if text.isdecimal() and text.isascii():
            return timedelta(seconds=min(int(text[:12]), math.floor(LONGEST_WAIT.total_seconds())))
        until = _instant(text)
        if until is None:
            return None
        return min(max(until - (_instant(self.headers.get("date", "")) or now), timedelta(0)), LONGEST_WAIT)


def _instant(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
