"""Traces over OTLP: off, and free, unless the environment names an endpoint (``OTEL_EXPORTER_OTLP_ENDPOINT``).

All spans of a job are in one trace: the one of the context that is stored with the job, else one whose id is the job's
own id, so that a job that came from SQL has a trace as well. What is done to many jobs at once is a span of its own,
linked with a span of the same time in the trace of each job, which links back. Names and attributes
follow OpenTelemetry's semantic conventions for messaging. Sending is a background thread's work: a collector that is
away costs spans, never a job's time.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from enum import Enum
from importlib.metadata import version
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from mainspring.domain.trace import JobTrace

#: What a stopping process gives the collector for the last spans, in seconds.
FLUSH_SECONDS = 2.0
#: A span has at most so many links by default (OpenTelemetry's specification, "Span limits").
MOST_LINKS = 128
_GRPC_PORT = ":4317"
_PROPAGATOR = TraceContextTextMapPropagator()
#: The trace id of the next span without a parent.
_trace_id: ContextVar[int | None] = ContextVar("trace_id", default=None)


class Operation(Enum):
    """What is done to jobs: its name, its type and kind by the conventions."""

    SUBMIT = ("submit", "create", SpanKind.PRODUCER)
    FIRE = ("fire", "create", SpanKind.PRODUCER)
    RELEASE = ("release", "send", SpanKind.PRODUCER)
    DISPATCH = ("dispatch", "send", SpanKind.PRODUCER)
    RUN = ("run", "process", SpanKind.CONSUMER)
    RECLAIM = ("reclaim", "settle", SpanKind.INTERNAL)
    BURY = ("bury", "settle", SpanKind.CONSUMER)
    REDRIVE = ("redrive", "send", SpanKind.PRODUCER)


class _State:
    """Until ``configure`` finds an endpoint: spans that nobody keeps."""

    tracer: trace.Tracer = trace.NoOpTracer()
    provider: Any = None


_state = _State()


def configure(service: str) -> None:
    """Send spans from now on, if the environment names an endpoint; the specification's ``OTEL_*`` variables hold."""
    endpoint = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")
    is_off = (
        os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or os.environ.get("OTEL_TRACES_EXPORTER") == "none"
    )
    if not endpoint or is_off or _state.provider is not None:
        return
    # Only now: the SDK and gRPC cost a process that doesn't need them a quarter of a second and 20 MB.
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
    from opentelemetry.sdk.trace.sampling import Sampler, SamplingResult

    class JobIds(RandomIdGenerator):
        def generate_trace_id(self) -> int:
            return _trace_id.get() or super().generate_trace_id()

    class ByJob(Sampler):
        """The configured sampler. A job's id is no random number, as ratios ask for: its digest is one."""

        def __init__(self, configured: Sampler) -> None:
            self._configured = configured

        def should_sample(self, parent_context: Any, trace_id: int, *rest: Any, **more: Any) -> SamplingResult:
            if trace_id == _trace_id.get():
                digest = hashlib.blake2b(trace_id.to_bytes(16), digest_size=16).digest()
                trace_id = int.from_bytes(digest)
            return self._configured.should_sample(parent_context, trace_id, *rest, **more)

        def get_description(self) -> str:
            return self._configured.get_description()

    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": f"mainspring-{service}"}
    resource = Resource.create({"service.version": version("mainspring"), "service.namespace": "mainspring", **named})
    provider = TracerProvider(resource=resource, id_generator=JobIds(), shutdown_on_exit=False)
    provider.sampler = ByJob(provider.sampler)
    provider.add_span_processor(BatchSpanProcessor(_exporter(endpoint)))
    trace.set_tracer_provider(provider)
    _state.provider = provider
    _state.tracer = provider.get_tracer("mainspring", version("mainspring"))


def _exporter(endpoint: str) -> Any:
    """By the protocol that is named, else by the port: 4317 is gRPC's; HTTP is the specification's default."""
    protocol = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
    if protocol == "grpc" or (protocol is None and endpoint.rstrip("/").endswith(_GRPC_PORT)):
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

        return OTLPSpanExporter()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter

    return HttpExporter()


def finish() -> None:
    """Send what is left, for at most FLUSH_SECONDS."""
    provider, _state.provider, _state.tracer = _state.provider, None, trace.NoOpTracer()
    if provider is not None:
        last = threading.Thread(target=provider.shutdown, daemon=True)
        last.start()
        last.join(FLUSH_SECONDS)


def is_on() -> bool:
    """True when spans are sent."""
    return _state.provider is not None


def traceparent_of(span: Span) -> str | None:
    """The span's context as a header; None for one that nobody keeps."""
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier, trace.set_span_in_context(span, Context()))
    return carrier.get("traceparent")


def current_traceparent() -> str | None:
    """The context of the span that is current here, ours or the user's."""
    return traceparent_of(trace.get_current_span())


def attributes_of(operation: Operation, queue: str | None, **more: Any) -> dict[str, Any]:
    """The conventions' attributes; what is None is left out."""
    name, kind, _ = operation.value
    found = {
        "messaging.system": "mainspring",
        "messaging.operation.name": name,
        "messaging.operation.type": kind,
        "messaging.destination.name": queue,
        **more,
    }
    return {key: value for key, value in found.items() if value is not None}


def start(operation: Operation, queue: str | None, parent: JobTrace | str | None, **more: Any) -> Span:
    """Start a span under a job's context, under a traceparent, or as a root; the caller ends it."""
    return _start(operation, queue, parent, attributes_of(operation, queue, **more))


def _start(
    operation: Operation,
    queue: str | None,
    parent: JobTrace | str | None,
    attributes: dict[str, Any],
    links: Sequence[Link] = (),
    start_time: int | None = None,
) -> Span:
    name, _, kind = operation.value
    traceparent = parent.traceparent if isinstance(parent, JobTrace) else parent
    context = _PROPAGATOR.extract({"traceparent": traceparent}, Context()) if traceparent else Context()
    token = _trace_id.set(parent.job_id.int if isinstance(parent, JobTrace) else None)
    try:
        return _state.tracer.start_span(
            f"{name} {queue}" if queue else name, context, kind, attributes, links, start_time
        )
    finally:
        _trace_id.reset(token)


def fail(span: Span, kind: str, message: str, traceback: str = "") -> None:
    """Say on a span that it went wrong."""
    span.add_event(
        "exception", {"exception.type": kind, "exception.message": message, "exception.stacktrace": traceback}
    )
    span.set_status(Status(StatusCode.ERROR, f"{kind}: {message}"))


@contextlib.contextmanager
def current(
    operation: Operation, queue: str | None, parent: JobTrace | str | None = None, **more: Any
) -> Iterator[Span]:
    """A span that is current in the block, and fails with it."""
    span = start(operation, queue, parent, **more)
    with trace.use_span(span, end_on_exit=True):
        yield span


@contextlib.contextmanager
def continued(traceparent: str | None) -> Iterator[None]:
    """Make another process's span the current one in the block: what users' code traces becomes its child."""
    if not is_on() or traceparent is None:
        yield
        return
    remote = trace.get_current_span(_PROPAGATOR.extract({"traceparent": traceparent}, Context()))
    with trace.use_span(remote, end_on_exit=False):
        yield


def spread(batch: Span, operation: Operation, queue: str | None, jobs: Sequence[JobTrace], started_at: int) -> None:
    """Show in the trace of each job what was done to all of them from ``started_at`` (ns) until now.

    Links lead both ways, between the batch's span and each job's.
    """
    ended_at = time.time_ns()
    back = Link(batch.get_span_context())
    for index, job in enumerate(jobs):
        attributes = attributes_of(operation, queue, **{"messaging.message.id": str(job.job_id)})
        span = _start(operation, queue, job, attributes, [back], started_at)
        if index < MOST_LINKS:
            batch.add_link(span.get_span_context())
        span.end(ended_at)
