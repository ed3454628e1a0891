"""The task itself: one request for each attempt, with what its receiver needs to apply it once."""

from __future__ import annotations

import asyncio
import json
import ssl
from datetime import UTC, datetime
from functools import lru_cache
from importlib.metadata import version
from typing import Annotated, Any, Literal
from urllib.parse import quote

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

EXAMPLE = "https://example.com/charge"
HeaderName = Annotated[str, Field(pattern=_TOKEN)]
#: Without white space at its ends, which isn't part of a value.
_TEXT = r"^([\x21-\x7e\x80-\xff]([\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?$"
HeaderValue = Annotated[str, Field(pattern=_TEXT, max_length=8192)]


class CallFailed(Exception):
    """No answer came: the connection failed, or was too slow. The job is tried again by its policy."""


def _check_headers(headers: dict[str, str]) -> dict[str, str]:
    for name in headers:
        # Receivers behind WSGI and CGI read an underscore and a dash as one.
        plain = name.lower().replace("_", "-")
        if plain in RESERVED | OURS or plain.startswith("mainspring-"):
            raise ValueError(f"{name} is not the caller's to set")
    if len({name.lower() for name in headers}) < len(headers):
        raise ValueError("two of them are the same but for their case")
    return {name.lower(): value for name, value in headers.items()}


@task("http", queue="http", timeout=330)
async def http(
    ctx: JobContext,
    *,
    url: Annotated[str, Field(pattern=r"^https?://[^\s/?#]+[^\s]*$", max_length=8192, examples=[EXAMPLE])],
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
            answer = await _send(settings, method, *_target(url), sent, content)
    except TimeoutError:
        raise CallFailed(f"no answer within {timeout_seconds:g} s") from None
    except httpcore.LocalProtocolError as error:
        raise Permanent(f"this can't be sent: {error}") from error  # it would not be another time
    except (
        httpcore.NetworkError,
        httpcore.ProtocolError,
        httpcore.TimeoutException,
        httpcore.UnsupportedProtocol,
    ) as error:
        raise CallFailed(f"{type(error).__name__}: {error}") from error
    answer.check(expected_status, datetime.now(UTC))
    return answer.result()


def _target(url: str) -> tuple[httpcore.URL, bytes]:
    """The URL as it is sent (a name in its ASCII form, a path in percent-encoding), and its Host. Raises Permanent."""
    try:
        parts = httpx.URL(url)
        sent = httpcore.URL(scheme=parts.raw_scheme, host=parts.raw_host, port=parts.port, target=parts.raw_path)
    except (httpx.InvalidURL, UnicodeError, ValueError) as error:
        raise Permanent(f"url: {error}") from None
    if parts.port is not None and not 0 < parts.port < 65_536:
        raise Permanent(f"url: {parts.port} is no port")
    return sent, parts.netloc


def _content(body: Any) -> tuple[bytes, dict[str, str]]:
    if body is None:
        return b"", {}
    if isinstance(body, str):
        return body.encode(), {"content-type": "text/plain; charset=utf-8"}
    return json.dumps(body, ensure_ascii=False).encode(), {"content-type": "application/json"}


def _identity(ctx: JobContext) -> dict[str, str]:
    """What tells the receiver which effect this is, and which of two requests is the newer one."""
    found = {
        "idempotency-key": _plain(ctx.idempotency_key),
        "mainspring-job-id": str(ctx.job_id),
        "mainspring-attempt": str(ctx.attempt),
        "mainspring-fence": str(ctx.fence),
    }
    return found | ({"traceparent": ctx.traceparent} if ctx.traceparent else {})


def _plain(key: str) -> str:
    """A key as a header's value: percent-encoded where a header couldn't hold it."""
    return key if key.isascii() and key == key.strip() else quote(key)


@lru_cache(maxsize=1)
def _trust() -> ssl.SSLContext:
    """Whom to trust, made once: it costs a tenth of a second, during which no other handler of the process runs."""
    return httpx.create_ssl_context()


async def _send(
    settings: HttpSettings, method: str, url: httpcore.URL, host: bytes, headers: dict[str, str], content: bytes
) -> Answer:
    network = JudgedNetwork(Rules.of(settings))
    lines = [(b"host", host), *((name.encode(), value.encode("latin-1")) for name, value in headers.items())]
    async with (
        httpcore.AsyncConnectionPool(ssl_context=_trust(), network_backend=network) as pool,
        pool.stream(method, url, headers=lines, content=content) as response,
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
