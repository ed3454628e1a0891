"""The W3C trace context that a job keeps (https://www.w3.org/TR/trace-context/, section 3.2)."""

from __future__ import annotations

import re

_FORM = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?P<more>-[!-~]{0,200})?")


def usable_traceparent(header: str | None) -> str | None:
    """The header if it can be continued, else None: by the standard a malformed one means a new trace, no error."""
    found = _FORM.fullmatch(header) if header is not None else None
    if found is None or header is None or (header.startswith("00-") and found["more"]):
        return None
    return header
