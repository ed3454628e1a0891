"""Speaking to the api: one place that turns HTTP answers into our errors."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from mainspring.domain.errors import Conflict, Forbidden, InvalidInput, NotFound, Unauthenticated, Unavailable

if TYPE_CHECKING:
    import httpx

DEFAULT_URL = "http://127.0.0.1:8080"
MOST_IN_PAGE = 1000
_KINDS = {401: Unauthenticated, 403: Forbidden, 404: NotFound, 409: Conflict}


def call(method: str, path: str, *, body: Any = None, timeout: float = 30, **params: Any) -> Any:
    """The JSON answer of the api. Raises InvalidInput, NotFound, Conflict, Unavailable."""
    # Only who asks pays for loading it: a preview needs no server.
    import httpx

    url = os.environ.get("MAINSPRING_API_URL", DEFAULT_URL)
    key = os.environ.get("MAINSPRING_API_KEY")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    wanted = {name: value for name, value in params.items() if value is not None}
    try:
        answer = httpx.request(method, url + path, json=body, headers=headers, params=wanted, timeout=timeout)
    except httpx.HTTPError as error:
        raise Unavailable(f"no answer from {url}: {error}") from error
    if answer.is_success or answer.status_code == 410:
        return answer.json() if answer.content else None
    raise _error(answer)


def pages(path: str, limit: int, **params: Any) -> dict[str, Any]:
    """The first ``limit`` items of a list, gathered from as many pages as it takes. Raises as ``call``."""
    items: list[Any] = []
    cursor: str | None = None
    while True:
        page = call("GET", path, limit=min(limit - len(items), MOST_IN_PAGE), cursor=cursor, **params)
        items += page["items"]
        cursor = page["next"]
        if cursor is None or len(items) >= limit:
            return {"items": items, "next": cursor}


def _error(answer: httpx.Response) -> Exception:
    try:
        problem = answer.json()
    except json.JSONDecodeError:
        return Unavailable(f"HTTP {answer.status_code}")
    text = problem.get("detail") or problem.get("title", "")
    if answer.status_code == 422:
        first = (problem.get("errors") or [{"field": "request", "message": text}])[0]
        return InvalidInput(first["field"], first["message"])
    kind = _KINDS.get(answer.status_code)
    return kind(text) if kind else Unavailable(f"HTTP {answer.status_code}: {text}")
