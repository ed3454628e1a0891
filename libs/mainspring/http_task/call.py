"""The task itself: one request for each attempt, with what its receiver needs to apply it once."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Annotated, Any, Literal

import httpcore
import httpx
from pydantic import AfterValidator, Field

from mainspring.context import JobContext
from mainspring.domain.errors import Permanent
from mainspring.http_task.answer import Answer
from mainspring.http_task.settings import HttpSettings
from mainspring.http_task.signature import signed
from mainspring.http_task.target import JudgedNetwork, Rules
from mainspring.runtime.settings import read
from mainspring.tasks import task

_TOKEN = r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$"  # noqa: S105  RFC 9110's word for a header's name
#: What the connection or this module decides.
RESERVED = {"host", "content-length", "transfer-encoding", "connection", "te", "trailer", "upgrade", "expect"}
OURS = {"idempotency-key", "webhook-id", "webhook-timestamp", "webhook-signature"}

HeaderName = Annotated[str, Field(pattern=_TOKEN)]
HeaderValue = Annotated[str, Field(pattern=r"^[\t\x20-\x7e\x80-\xff]*$", max_length=8192)]


class CallFailed(Exception):
    """No answer came: the connection failed, or was too slow. The job is tried again by its policy."""


def _check_headers(headers: dict[str, str]) -> dict[str, str]:
    for name in headers:
        if name.lower() in RESERVED | OURS or name.lower().startswith("mainspring-"):
            raise ValueError(f"{name} is not the caller's to set")
    return headers


@task("http", queue="http", timeout=330)
async def http(
    ctx: JobContext,
    *,
    url: Annotated[str, Field(pattern=r"^https?://[^\s/?#]+[^\s]*$", max_length=8192)],
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] = "POST",
    headers: Annotated[dict[HeaderName, HeaderValue], AfterValidator(_check_headers)] = {},  # noqa: B006  a schema's default
    body: Any = None,
    timeout_seconds: Annotated[float, Field(gt=0, le=300)] = 30,
    expected_status: list[Annotated[int, Field(ge=100, le=599)]] = [],  # noqa: B006
) -> dict[str, Any]:
    """Send one request and keep the answer. An unexpected status (default: any but 2xx) is a failure to try again.

    ``body`` is sent as JSON, a text as it is. The wait that ``Retry-After`` asks for is kept. Raises Permanent for a
    target that isn't allowed, a redirect (none is followed), and 410 Gone.
    """
    settings = read(HttpSettings)
    content, kind = _content(body)
    sent = {"user-agent": f"mainspring/{version('mainspring')}", "accept": "*/*", **kind, **headers, **_identity(ctx)}
    if key := settings.key():
        sent |= signed(key, str(ctx.job_id), int(datetime.now(UTC).timestamp()), content)
    try:
        async with asyncio.timeout(timeout_seconds):
            answer = await _send(settings, method, _target(url), sent, content)
    except TimeoutError:
        raise CallFailed(f"no answer within {timeout_seconds:g} s") from None
    except (
        httpcore.NetworkError,
        httpcore.ProtocolError,
        httpcore.TimeoutException,
        httpcore.UnsupportedProtocol,
    ) as error:
        raise CallFailed(f"{type(error).__name__}: {error}") from error
    answer.check(expected_status, datetime.now(UTC))
    return answer.result()


def _target(url: str) -> httpcore.URL:
    """The URL in the form that is sent: a name in its ASCII form, a path in percent-encoding. Raises Permanent."""
    try:
        parts = httpx.URL(url)
        return httpcore.URL(scheme=parts.raw_scheme, host=parts.raw_host, port=parts.port, target=parts.raw_path)
    except (httpx.InvalidURL, UnicodeError, ValueError) as error:
        raise Permanent(f"url: {error}") from None


def _content(body: Any) -> tuple[bytes, dict[str, str]]:
    if body is None:
        return b"", {}
    if isinstance(body, str):
        return body.encode(), {"content-type": "text/plain; charset=utf-8"}
    return json.dumps(body, ensure_ascii=False).encode(), {"content-type": "application/json"}


def _identity(ctx: JobContext) -> dict[str, str]:
    """What tells the receiver which effect this is, and which of two requests is the newer one."""
    found = {
        "idempotency-key": ctx.idempotency_key.encode().decode("latin-1"),
        "mainspring-job-id": str(ctx.job_id),
        "mainspring-attempt": str(ctx.attempt),
        "mainspring-fence": str(ctx.fence),
    }
    return found | ({"traceparent": ctx.traceparent} if ctx.traceparent else {})


async def _send(
    settings: HttpSettings, method: str, url: httpcore.URL, headers: dict[str, str], content: bytes
) -> Answer:
    network = JudgedNetwork(Rules.of(settings))
    async with (
        httpcore.AsyncConnectionPool(network_backend=network) as pool,
        pool.stream(
            method, url, headers=[(name, value.encode("latin-1")) for name, value in headers.items()], content=content
        ) as response,
    ):
        kept, is_cut = await _beginning(response, settings.answer_bytes)
        names = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
        return Answer(response.status, names, kept, is_cut)


async def _beginning(response: httpcore.Response, most: int) -> tuple[bytes, bool]:
    kept = b""
    async for chunk in response.aiter_stream():
        kept += chunk
        if len(kept) > most:
            return kept[:most], True
    return kept, False
