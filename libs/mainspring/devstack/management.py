"""RabbitMQ's management HTTP API, as far as the devstack needs it."""

from __future__ import annotations

import base64
import json
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from mainspring.devstack.errors import RefusedError

_TIMEOUT_SECONDS = 30.0


class Management:
    """One broker's management API, by its URL with user and password: `http://user:password@host:port`."""

    def __init__(self, url: str) -> None:
        self.url = url
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port or 15672
        credentials = f"{unquote(parts.username or 'guest')}:{unquote(parts.password or 'guest')}"
        self._authorization = "Basic " + base64.b64encode(credentials.encode()).decode()

    def ask(self, method: str, *path: str, query: str = "", body: object = None) -> Any:
        """Send a request to /api/…, each part of the path quoted; returns the decoded answer, if any.

        Raises RefusedError when the broker refuses, OSError or HTTPException when it does not answer.
        """
        target = "/api/" + "/".join(quote(part, safe="") for part in path) + query
        connection = HTTPConnection(self._host, self._port, timeout=_TIMEOUT_SECONDS)
        try:
            headers = {"Authorization": self._authorization, "Content-Type": "application/json"}
            connection.request(method, target, json.dumps(body) if body else None, headers)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        if answer.status >= 400:
            words = content.decode(errors="replace")
            raise RefusedError(f"RabbitMQ: {method} {target}: {answer.status} {words}")
        return json.loads(content) if content else None

    def listens(self, node: str, port: int) -> bool:
        """Whether the broker of this name answers and accepts AMQP connections on this port."""
        try:
            name: str = self.ask("GET", "overview")["node"]
            self.ask("GET", "health", "checks", "port-listener", str(port))
        except (OSError, HTTPException, RefusedError, ValueError):
            return False
        return name == node
