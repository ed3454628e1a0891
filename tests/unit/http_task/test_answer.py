"""What an answer means for the job."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from mainspring.domain.errors import Misconfigured, Permanent, RetryAfter
from mainspring.http_task.answer import Answer, UnexpectedStatus
from mainspring.http_task.settings import HttpSettings
from mainspring.http_task.signature import signed

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def answer(status: int, body: bytes = b"", *, is_cut: bool = False, **headers: str) -> Answer:
    return Answer(status, {name.replace("_", "-"): value for name, value in headers.items()}, body, is_cut)


@pytest.mark.parametrize(("status", "expected"), [(200, []), (204, []), (299, []), (404, [404]), (302, [200, 302])])
def test_an_expected_status_is_a_success(status: int, expected: list[int]) -> None:
    answer(status).check(expected, NOW)


@pytest.mark.parametrize(("status", "expected"), [(404, []), (500, []), (200, [201]), (429, []), (199, [])])
def test_another_status_is_a_failure_to_try_again(status: int, expected: list[int]) -> None:
    with pytest.raises(UnexpectedStatus, match=f"answered {status}: why"):
        answer(status, b"why").check(expected, NOW)


@pytest.mark.parametrize("status", [301, 302, 307, 308, 410])
def test_a_redirect_and_gone_are_the_end(status: int) -> None:
    with pytest.raises(Permanent):
        answer(status, location="http://169.254.169.254/").check([], NOW)


@pytest.mark.parametrize(
    ("wait", "date", "seconds"),
    [
        ("120", "", 120),
        ("0", "", 0),
        ("Sun, 01 Mar 2026 12:05:00 GMT", "", 300),
        ("Sun, 01 Mar 2026 11:00:00 GMT", "", 0),
        # The server's clock is an hour ahead of ours: its own date says what it meant.
        ("Sun, 01 Mar 2026 13:05:00 GMT", "Sun, 01 Mar 2026 13:00:00 GMT", 300),
        ("9" * 300, "", 365 * 86_400),
    ],
)
def test_a_wait_that_the_server_asks_for_is_kept(wait: str, date: str, seconds: int) -> None:
    for status in (429, 503, 500):
        with pytest.raises(RetryAfter) as raised:
            answer(status, retry_after=wait, date=date).check([], NOW)
        assert raised.value.delay == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "wait",
    ["", "soon", "-5", "1.5", "\u0661", "Sun, 99 Mar 2026 12:05:00 GMT", f"Sun, 01 Mar 2026 12:05:00 +{'9' * 19}"],
)
def test_a_wait_that_cannot_be_read_is_none(wait: str) -> None:
    with pytest.raises(UnexpectedStatus):
        answer(503, retry_after=wait).check([], NOW)


@pytest.mark.parametrize(
    ("one", "kept"),
    [
        (answer(200, b'{"a": 1}', content_type="application/json; charset=utf-8"), {"a": 1}),
        (answer(200, b'{"a": 1}', content_type="application/problem+json"), {"a": 1}),
        (answer(200, b'{"a": 1}', content_type="text/plain"), '{"a": 1}'),
        (answer(200, b"{", content_type="application/json"), "{"),
        (answer(200, b'{"a": NaN}', content_type="application/json"), '{"a": NaN}'),
        (answer(200, b"9" * 500, content_type="application/json"), "9" * 500),
        (answer(200, b'"\\ud800"', content_type="application/json"), '"\\ud800"'),
        (answer(200, b"[" * 100_000, content_type="application/json"), "[" * 100_000),
        (answer(200, b"a\0b\xff"), "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}"),
    ],
)
def test_the_result_is_the_body_as_its_type_says(one: Answer, kept: object) -> None:
    assert one.result() == {"status": 200, "body": kept}


def test_a_body_that_was_cut_says_so() -> None:
    one = answer(200, b'{"a": ', is_cut=True, content_type="application/json")
    assert one.result() == {"status": 200, "body": '{"a": ', "truncated": True}


def test_a_signature_is_that_of_standard_webhooks() -> None:
    """The example of the specification's reference implementations."""
    key = HttpSettings(secret="whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").key()
    assert key is not None
    headers = signed(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_secret_that_cannot_be_read_is_said_by_name() -> None:
    assert HttpSettings(secret="plain words").key() == b"plain words"
    with pytest.raises(Misconfigured, match="MAINSPRING_HTTP_SECRET"):
        HttpSettings(secret="whsec_not base64!").key()
