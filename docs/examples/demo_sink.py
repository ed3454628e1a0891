"""A webhook sink on this machine: it takes alerts and remembers the dead letters that they name."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType


class AlertSink:
    """Serves while inside the block."""

    def __init__(self) -> None:
        self.ids: set[str] = set()
        self.alerts = 0
        sink = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                sink.take(body)
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """Where to send alerts."""
        return f"http://127.0.0.1:{self._server.server_port}/alerts"

    def take(self, body: dict[str, list[dict[str, list[str]]]]) -> None:
        """Remember the dead letters of one alert."""
        self.alerts += 1
        for group in body["groups"]:
            self.ids.update(group["ids"])

    def wait_for(self, count: int, give_up_at: float) -> None:
        """Wait until so many dead letters were alerted."""
        while len(self.ids) < count and time.monotonic() < give_up_at:
            time.sleep(0.1)

    def __enter__(self) -> AlertSink:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
