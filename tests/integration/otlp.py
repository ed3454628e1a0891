"""An OTLP receiver, over gRPC and over HTTP: what services send is read by the protocol's own definitions."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as messages
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as service

from .local_server import Handler, serving


@dataclass(frozen=True)
class Received:
    """A span as it arrived."""

    service: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    is_failed: bool
    attributes: dict[str, Any]
    links: tuple[tuple[str, str], ...]
    events: tuple[str, ...]
    started_at: int
    ended_at: int


@dataclass
class Receiver:
    """Everything that has arrived."""

    endpoint: str = ""
    spans: list[Received] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def take(self, request: messages.ExportTraceServiceRequest) -> None:
        """Keep what an export holds."""
        with self.changed:
            for resource in request.resource_spans:
                name = _attributes(resource.resource.attributes)["service.name"]
                self.spans += [_received(name, one) for scope in resource.scope_spans for one in scope.spans]
            self.changed.notify_all()

    def in_trace(self, trace_id: str, names: set[str], seconds: float = 30) -> list[Received]:
        """The spans of a trace, once those of all these names have come; the earliest first."""

        def found() -> list[Received]:
            return sorted((one for one in self.spans if one.trace_id == trace_id), key=lambda one: one.started_at)

        with self.changed:
            is_whole = self.changed.wait_for(lambda: names <= {one.name for one in found()}, seconds)
            assert is_whole, f"missing: {names - {one.name for one in found()}}; there are {self.spans}"
            return found()


def _received(name: str, one: Any) -> Received:
    return Received(
        name,
        one.name,
        one.trace_id.hex(),
        one.span_id.hex(),
        one.parent_span_id.hex(),
        one.status.code == one.status.STATUS_CODE_ERROR,
        _attributes(one.attributes),
        tuple((link.trace_id.hex(), link.span_id.hex()) for link in one.links),
        tuple(event.name for event in one.events),
        one.start_time_unix_nano,
        one.end_time_unix_nano,
    )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


@contextmanager
def grpc_receiver() -> Iterator[Receiver]:
    """A receiver that speaks gRPC."""
    receiver = Receiver()

    class Traces(service.TraceServiceServicer):
        def Export(self, request: Any, _: Any) -> Any:  # noqa: N802  the protocol's name
            receiver.take(request)
            return messages.ExportTraceServiceResponse()

    server = grpc.server(ThreadPoolExecutor(2))
    service.add_TraceServiceServicer_to_server(Traces(), server)
    receiver.endpoint = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    yield receiver
    server.stop(0).wait()


@contextmanager
def http_receiver() -> Iterator[Receiver]:
    """A receiver that speaks protobuf over HTTP."""
    receiver = Receiver()

    class Traces(Handler):
        def do_POST(self) -> None:  # noqa: N802  the library's name
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            assert self.path == "/v1/traces"
            receiver.take(messages.ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.end_headers()

    with serving(Traces) as receiver.endpoint:
        yield receiver
