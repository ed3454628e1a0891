"""The http task against real servers: what they receive, what the job keeps, and where it never goes (A03)."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import unquote

import pytest

from mainspring.domain.errors import InvalidInput
from mainspring.domain.states import Outcome, State
from mainspring.http_task import http
from mainspring.http_task.signature import signed
from mainspring.testing import InlineRun, run_inline

from .local_server import Handler, serving
from .system import System


@dataclass
class Target:
    """A server that answers as it is told, and remembers what it was asked."""

    url: str = ""
    answer: Callable[[BaseHTTPRequestHandler], None] = field(default_factory=lambda: says(200))
    seen: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)


@contextmanager
def answering(target: Target) -> Iterator[Target]:
    class Remembers(Handler):
        protocol_version = "HTTP/1.1"

        def _any(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            target.seen.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            target.answer(self)

        do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = _any  # noqa: N815  the library's names

    with serving(Remembers) as target.url:
        yield target


@pytest.fixture
def target(monkeypatch) -> Iterator[Target]:
    monkeypatch.setenv("MAINSPRING_HTTP_ALLOW", "127.0.0.1")
    with answering(Target()) as one:
        yield one


def says(status: int, body: bytes = b"", **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("content-length", str(len(body)))
        handler.end_headers()
        if handler.command != "HEAD":
            handler.wfile.write(body)

    return answer


def run(url: str, **payload: Any) -> InlineRun:
    return asyncio.run(run_inline(http, http.request(url=url, **payload)))


def test_a_request_says_who_it_is_and_the_answer_is_the_result(target: Target, monkeypatch) -> None:
    monkeypatch.setenv("MAINSPRING_HTTP_SECRET", "our secret")
    target.answer = says(201, b'{"receipt": 7}', content_type="application/json")
    done = run(f"{target.url}/charge?x=1", body={"cents": 990}, headers={"X-Tenant": "acme"})
    assert (done.state, done.result) == (State.SUCCEEDED, {"status": 201, "body": {"receipt": 7}})
    ((method, path, headers, body),) = target.seen
    assert (method, path, json.loads(body)) == ("POST", "/charge?x=1", {"cents": 990})
    assert headers["content-type"] == "application/json"
    assert headers["x-tenant"] == "acme"
    assert headers["idempotency-key"] == headers["mainspring-job-id"]
    assert (headers["mainspring-attempt"], headers["mainspring-fence"]) == ("1", "3")
    expected = signed(b"our secret", headers["webhook-id"], int(headers["webhook-timestamp"]), body)
    assert headers["webhook-signature"] == expected["webhook-signature"]


def test_attempts_of_a_job_are_told_apart_and_have_one_key(target: Target) -> None:
    answers = [says(500), says(429, retry_after="7"), says(200)]

    def answer(handler: BaseHTTPRequestHandler) -> None:
        answers.pop(0)(handler)

    target.answer = answer
    done = run(target.url)
    assert [one.outcome for one in done.attempts] == [Outcome.FAILED, Outcome.FAILED, Outcome.SUCCEEDED]
    assert 7 <= done.attempts[1].delay.total_seconds() < 8
    sent = [headers for _, _, headers, _ in target.seen]
    assert len({one["idempotency-key"] for one in sent}) == 1
    assert [int(one["mainspring-fence"]) for one in sent] == sorted({int(one["mainspring-fence"]) for one in sent})


def test_what_the_caller_sets_is_sent_once(target: Target) -> None:
    run(target.url, body="<a/>", headers={"Content-Type": "text/xml", "USER-AGENT": "me"})
    (headers,) = [headers for _, _, headers, _ in target.seen]
    assert (headers["content-type"], headers["user-agent"]) == ("text/xml", "me")
    assert headers["host"] == target.url.removeprefix("http://")


def test_an_address_of_six_is_named_in_brackets(monkeypatch) -> None:
    monkeypatch.setenv("MAINSPRING_HTTP_ALLOW", "::1")
    heard: list[bytes] = []

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        writer.close()

    async def call() -> tuple[InlineRun, int]:
        async with await asyncio.start_server(hear, "::1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            return await run_inline(http, http.request(url=f"http://[::1]:{port}/", method="GET")), port

    done, port = asyncio.run(call())
    assert done.state is State.SUCCEEDED
    assert f"\r\nhost: [::1]:{port}\r\n".encode() in heard[0].lower()


@pytest.mark.parametrize("key", ["order 7 ", "gr\u00fc\u00dfe", "plain"])
def test_a_key_that_a_header_cannot_hold_is_encoded(target: Target, key: str) -> None:
    request = http.request(url=target.url).with_options(idempotency_key=key)
    assert asyncio.run(run_inline(http, request)).state is State.SUCCEEDED
    assert unquote(target.seen[0][2]["idempotency-key"]) == key


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"])
def test_each_method(target: Target, method: str) -> None:
    target.answer = says(200, b"fine")
    assert run(target.url, method=method).state is State.SUCCEEDED
    assert target.seen[0][0] == method


def test_a_long_answer_is_cut(target: Target, monkeypatch) -> None:
    monkeypatch.setenv("MAINSPRING_HTTP_ANSWER_BYTES", "10")
    target.answer = says(200, b"x" * 10_000_000)
    assert run(target.url).result == {"status": 200, "body": "x" * 10, "truncated": True}


def test_a_server_that_never_answers_is_given_up(target: Target) -> None:
    gone = threading.Event()
    target.answer = lambda _: gone.wait(20)
    done = run(target.url, timeout_seconds=0.2)
    gone.set()
    assert done.state is State.DEAD
    assert done.attempts[0].error is not None
    assert done.attempts[0].error.type == "CallFailed"


@contextmanager
def listening() -> Iterator[tuple[int, list[Any]]]:
    """A port of this machine, and what has connected to it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        accepted: list[Any] = []
        yield listener.getsockname()[1], accepted
        try:
            while True:
                accepted.append(listener.accept())
        except BlockingIOError:
            return


PLACES = ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "127.1", "[::ffff:127.0.0.1]", "0.0.0.0", "u:p@127.0.0.1"]  # noqa: S104


@pytest.mark.parametrize("place", PLACES)
def test_a03_a_job_never_connects_to_this_machine(place: str) -> None:
    with listening() as (port, accepted):
        done = run(f"http://{place}:{port}/")
    assert (done.state, accepted) == (State.DEAD, [])
    (attempt,) = done.attempts
    assert attempt.error is not None
    assert (attempt.error.type, "target_not_allowed" in attempt.error.message) == ("TargetNotAllowed", True)


def test_a03_a_redirect_is_not_followed(target: Target) -> None:
    with listening() as (port, accepted):
        target.answer = says(302, location=f"http://127.0.0.1:{port}/")
        done = run(target.url)
    assert (done.state, len(done.attempts), accepted) == (State.DEAD, 1, [])


def resolver(monkeypatch, *answers: list[str]) -> list[str]:
    """Have names resolve to these addresses, one list for each question, the last one for ever."""
    asked: list[str] = []
    left = list(answers)

    async def getaddrinfo(_: object, host: str, port: int, **__: object) -> list[Any]:
        if host != "name.example":
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port))]
        asked.append(host)
        found = left.pop(0) if len(left) > 1 else left[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in found]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", getaddrinfo)
    return asked


@pytest.mark.parametrize("addresses", [["10.0.0.1"], ["127.0.0.1"], ["8.8.8.8", "10.0.0.1"]])
def test_a03_a_name_is_judged_by_all_its_addresses(monkeypatch, addresses: list[str]) -> None:
    resolver(monkeypatch, addresses)
    done = run("http://name.example/")
    assert done.attempts[0].error is not None
    assert done.attempts[0].error.type == "TargetNotAllowed"


def test_a03_the_connection_goes_to_the_address_that_was_judged(target: Target, monkeypatch) -> None:
    """A name that resolves to an open address first and to a closed one a moment later."""
    asked = resolver(monkeypatch, ["127.0.0.1"], ["127.0.0.2"])
    done = run(target.url.replace("127.0.0.1", "name.example"))
    assert done.attempts[-1].error is None
    assert (done.state, asked) == (State.SUCCEEDED, ["name.example"])
    assert target.seen[0][2]["host"].startswith("name.example")


@pytest.mark.parametrize(
    ("payload", "place"),
    [
        ({"url": "file:///etc/passwd"}, "payload.url"),
        ({"url": "gopher://example.com"}, "payload.url"),
        ({"url": "http://"}, "payload.url"),
        ({"url": "http://a b/"}, "payload.url"),
        ({"url": "http://example.com", "method": "TRACE"}, "payload.method"),
        ({"url": "http://example.com", "headers": {"Host": "x"}}, "payload.headers"),
        ({"url": "http://example.com", "headers": {"Mainspring-Fence": "9"}}, "payload.headers"),
        ({"url": "http://example.com", "headers": {"X": "a\r\nY: b"}}, "payload.headers.X"),
        ({"url": "http://example.com", "headers": {"X y": "a"}}, "payload.headers.X y"),
        ({"url": "http://example.com", "headers": {"Mainspring_Fence": "9"}}, "payload.headers"),
        ({"url": "http://example.com", "headers": {"IDEMPOTENCY_KEY": "9"}}, "payload.headers"),
        ({"url": "http://example.com", "headers": {"X": "a", "x": "b"}}, "payload.headers"),
        ({"url": "http://example.com", "headers": {"X": " a"}}, "payload.headers.X"),
        ({"url": "http://example.com", "timeout_seconds": 0}, "payload.timeout_seconds"),
        ({"url": "http://example.com", "timeout_seconds": 1e9}, "payload.timeout_seconds"),
        ({"url": "http://example.com", "expected_status": [99]}, "payload.expected_status.0"),
    ],
)
def test_a_bad_request_is_refused_when_it_is_made(payload: dict[str, Any], place: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        http.request(**payload)
    assert raised.value.field.startswith(place)


@pytest.mark.parametrize(
    "url",
    [
        "http://[::1/",
        "http://\u2024\u2024/",
        "http://a..b/",
        "http://xn--0/",
        "http://localhost:99999/",
        "http://localhost:0/",
    ],
)
def test_a_url_that_leads_nowhere_is_a_failure_that_says_so(url: str) -> None:
    done = run(url)
    assert done.state is State.DEAD
    assert done.attempts[-1].error is not None


@pytest.mark.timeout(120)
def test_a_worker_runs_it_and_the_front_door_checks_its_payload(target: Target, system: System) -> None:
    target.answer = says(200, b"done")
    system.fleet.set_environment("MAINSPRING_HTTP_ALLOW", "127.0.0.1")
    system.fleet.start("worker", "mainspring.http_task", slots=2, runners=1).wait_ready()
    job = system.final(system.submit("http", {"url": target.url}))
    assert (job["state"], job["result"]) == ("succeeded", {"status": 200, "body": "done"})

    def is_refused() -> bool:
        answer = system.http.post("/v1/jobs", json={"task": "http", "payload": {"url": "file:///etc/passwd"}})
        return answer.status_code == 422 and answer.json()["errors"][0]["field"] == "payload.url"

    system.until(is_refused, what="the catalogue's schema at the front door")
