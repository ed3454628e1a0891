"""/livez, /readyz and /metrics as a plain ASGI app, served by uvicorn beside a service's loops."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import uvicorn

from mainspring.telemetry import metrics

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


@dataclass(slots=True)
class Health:
    """What a process knows of its dependencies: a name, and why it is missing (or None)."""

    service: str
    facts: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    #: What is wrong elsewhere and doesn't keep this process from its work.
    degraded: dict[str, str] = field(default_factory=dict)

    def up(self, dependency: str) -> None:
        """The dependency answers."""
        self.missing.pop(dependency, None)
        metrics.UP.labels(dependency).set(1)

    def down(self, dependency: str, why: str) -> None:
        """The dependency doesn't answer; ``why`` is shown by /readyz."""
        self.missing[dependency] = why
        metrics.UP.labels(dependency).set(0)

    def broker(self, problem: str | None) -> None:
        """What a consumer says of its connection: a problem, or None when it works."""
        if problem is None:
            self.up("rabbitmq")
        else:
            self.down("rabbitmq", problem)

    def publishing(self, problem: str | None) -> None:
        """Whether messages can be published: a problem, or None."""
        if problem is None:
            self.up("publishing")
        else:
            self.down("publishing", problem)

    def note(self, dependency: str, problem: str | None) -> None:
        """Show a problem of something that this process can do without; None when it is over."""
        self.degraded.pop(dependency, None)
        if problem is not None:
            self.degraded[dependency] = problem

    def report(self) -> tuple[int, dict[str, Any]]:
        """The status and body of /readyz."""
        body = {
            "service": self.service,
            "ready": not self.missing,
            "missing": self.missing,
            "degraded": self.degraded,
        } | self.facts
        return (503 if self.missing else 200), body

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        status, kind, body = self._answer(scope["path"])
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind.encode())]})
        await send({"type": "http.response.body", "body": body})

    def _answer(self, path: str) -> tuple[int, str, bytes]:
        if path == "/metrics":
            return 200, metrics.CONTENT_TYPE, metrics.exposition()
        if path == "/livez":
            return 200, "application/json", b'{"live": true}'
        if path == "/readyz":
            status, body = self.report()
            return status, "application/json", json.dumps(body).encode()
        return 404, "application/json", b'{"title": "Not found", "status": 404}'


class Server(uvicorn.Server):
    """uvicorn inside a process that keeps its own signal handlers."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._stopping = asyncio.Event()

    def install_signal_handlers(self) -> None:
        """Leave the signals to the service."""

    async def main_loop(self) -> None:
        """Keep the Date header right until the stop; uvicorn's own loop wakes ten times a second."""
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await self._stopping.wait()

    async def serve_on(self, listener: socket.socket) -> None:
        """Serve until cancelled, then close the open connections quickly."""
        serving = asyncio.ensure_future(self._serve(sockets=[listener]))
        try:
            await asyncio.shield(serving)
        finally:
            self.should_exit = True
            self._stopping.set()
            await serving


def listen(host: str, port: int) -> socket.socket:
    """Bind now, so that a taken port is an error at start and not later. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, port))
    return listener


def server_for(app: Any, **options: Any) -> Server:
    """A uvicorn server for ``app`` that logs through our own logging."""
    return Server(uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=2, **options))
