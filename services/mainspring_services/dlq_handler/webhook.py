"""An alert as an HTTP POST: dead letters grouped by fingerprint, each group with a sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mainspring.domain.errors import Unavailable
from mainspring.store.dead_letters import DeadLetter
from mainspring.telemetry import metrics
from mainspring.telemetry.logs import get_logger

if TYPE_CHECKING:
    import httpx

log = get_logger(__name__)
MOST_IDS = 20


class Webhook:
    """Sends alerts; without a URL it only logs them."""

    def __init__(self, url: str, timeout: float) -> None:
        self._url = url
        self._client = _client(timeout) if url else None

    async def send(self, letters: Sequence[DeadLetter]) -> None:
        """Send one alert for ``letters``. Raises Unavailable when it wasn't accepted."""
        body = alert(letters)
        log.error("dead letters", count=body["count"], groups=body["groups"])
        if self._client is None:
            return
        import httpx

        try:
            answer = await self._client.post(self._url, json=body)
            answer.raise_for_status()
        except httpx.HTTPError as error:
            metrics.ALERTS.labels("failed").inc()
            raise Unavailable(f"webhook: {type(error).__name__}: {error}") from error
        metrics.ALERTS.labels("sent").inc()

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()


def _client(timeout: float) -> httpx.AsyncClient:
    # Only now: the client and its certificates cost a process that sends nothing a tenth of a second.
    import httpx

    return httpx.AsyncClient(timeout=timeout)


def alert(letters: Sequence[DeadLetter]) -> dict[str, Any]:
    """The body of an alert."""
    groups: dict[str, list[DeadLetter]] = {}
    for letter in letters:
        groups.setdefault(letter.fingerprint, []).append(letter)
    return {
        "kind": "dead_letters",
        "count": len(letters),
        "groups": [_group(fingerprint, members) for fingerprint, members in groups.items()],
    }


def _group(fingerprint: str, members: Sequence[DeadLetter]) -> dict[str, Any]:
    sample = members[0]
    error = sample.error or {}
    return {
        "fingerprint": fingerprint,
        "count": len(members),
        "task": sample.task,
        "queue": sample.queue,
        "reason": sample.reason,
        "error": {"type": error.get("type"), "message": str(error.get("message", ""))[:500]},
        "ids": [str(member.id) for member in members[:MOST_IDS]],
    }
