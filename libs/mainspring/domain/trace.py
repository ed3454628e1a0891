"""The trace of a job: its caller's (https://www.w3.org/TR/trace-context/, section 3.2), else one of its own."""

from __future__ import annotations

import re
from typing import NamedTuple
from uuid import UUID

_FORM = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?P<more>-[!-~]{0,200})?")


def usable_traceparent(header: str | None) -> str | None:
    """The header if it can be continued, else None: by the standard a malformed one means a new trace, no error."""
    found = _FORM.fullmatch(header) if header is not None else None
    if found is None or header is None or (header.startswith("00-") and found["more"]):
        return None
    return header


class JobTrace(NamedTuple):
    """Where the spans of a job belong: under the context that was stored with it, if one was."""

    job_id: UUID
    traceparent: str | None

    @property
    def trace_id(self) -> str:
        """32 hex digits. A job that came without a context has a trace of its own, named by the job's id."""
        return self.traceparent.split("-")[1] if self.traceparent else self.job_id.hex
