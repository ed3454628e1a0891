"""The first spans of a job: its request continues the caller's trace, and its submission is inside."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from fastapi import Request
from fastapi.telemetry import TelemetryConfig
from opentelemetry.trace import Span

from mainspring.domain.trace import usable_traceparent
from mainspring.telemetry import tracing
from mainspring.telemetry.tracing import Operation


def request_spans() -> TelemetryConfig:
    """What FastAPI itself is to trace: each request of the API, as one span; nothing when traces are off."""
    return {
        "tracing": tracing.is_on(),
        "metrics": False,
        "logs": False,
        "operation_spans": False,
        "auto_configure": False,
        "exclude": lambda scope: not scope["path"].startswith("/v1/"),
    }


@contextlib.contextmanager
def traced_submit(request: Request, queue: str | None = None) -> Iterator[tuple[Span, str | None]]:
    """A span around a submission, and the context that the job is to keep: with traces off, the caller's."""
    caller = usable_traceparent(request.headers.get("traceparent"))
    with tracing.current(Operation.SUBMIT, queue, tracing.current_traceparent() or caller) as span:
        yield span, (tracing.traceparent_of(span) if tracing.is_on() else caller)
