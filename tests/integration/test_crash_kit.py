"""The crash kit: what a kill at each await leaves behind, in real processes on real databases."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator

import pytest

from mainspring import InvalidInput
from mainspring.devstack import Stack
from mainspring.testing import crash_at_each_await

from .. import crash_tasks
from .local_server import Handler, serving

TABLES = """
CREATE TABLE payments (id uuid DEFAULT gen_random_uuid(), cents int);
CREATE TABLE receipts (job text UNIQUE, at timestamptz DEFAULT clock_timestamp());
CREATE TABLE books (cents int);
INSERT INTO books VALUES (100);
"""


@pytest.fixture
def users_database(stack: Stack) -> Iterator[str]:
    name = f"users_{secrets.token_hex(6)}"
    url = stack.postgres.create_database(name)
    stack.postgres.execute(TABLES, url)
    yield url
    assert stack.postgres.execute("SELECT count(*) FROM payments", url) == "0", "the trials ran on copies"
    stack.postgres.drop_database(name)


@pytest.fixture
def gateway() -> Iterator[tuple[str, list[str]]]:
    """Another system, which applies each key once."""
    applied: list[str] = []

    class Gateway(Handler):
        def do_POST(self) -> None:  # noqa: N802  the library's name
            key = self.headers.get("idempotency-key", secrets.token_hex(4))
            if key not in applied:
                applied.append(key)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

    with serving(Gateway) as url:
        yield url, applied


async def test_one_transaction_with_the_completion_is_safe_wherever_it_is_killed(users_database: str) -> None:
    one = crash_tasks.safe
    report = await crash_at_each_await(one, one.request(cents=5), database_url=users_database)
    assert len(report.crashes) > 3
    assert report.faults == (), str(report)


async def test_statements_that_commit_by_themselves_happen_twice(users_database: str) -> None:
    one = crash_tasks.careless
    report = await crash_at_each_await(one, one.request(cents=5), database_url=users_database)
    paid_twice = [crash for crash in report.crashes if "public.payments" in crash.twice]
    assert any("INSERT INTO payments" in crash.place for crash in paid_twice)
    assert paid_twice[-1] is report.crashes[-1], "killed after its return, the whole runs again"
    (row,) = paid_twice[-1].twice["public.payments"]
    assert json.loads(row) == {"cents": 5}
    # The second run meets the first one's receipt, and can never end.
    assert any("UniqueViolation" in (crash.error or "") for crash in report.crashes)
    assert "twice: public.payments" in str(report)


async def test_a_row_that_is_changed_twice_is_found(users_database: str) -> None:
    one = crash_tasks.adds
    report = await crash_at_each_await(one, one.request(cents=5), database_url=users_database)
    last = report.crashes[-1]
    assert (last.twice, last.lost) == ({"public.books": ['{"cents": 110}']}, {"public.books": ['{"cents": 105}']})


async def test_what_is_marked_before_it_is_done_is_lost(users_database: str) -> None:
    one = crash_tasks.hasty
    report = await crash_at_each_await(one, one.request(cents=5), database_url=users_database)
    assert {tuple(crash.lost) for crash in report.faults} == {("public.payments",)}
    assert "is_first = await" in report.faults[0].place


@pytest.mark.parametrize("has_key", [False, True])
async def test_another_system_needs_the_key(gateway: tuple[str, list[str]], has_key: bool) -> None:
    url, applied = gateway
    one = crash_tasks.calls
    report = await crash_at_each_await(one, one.request(url=url, has_key=has_key), outside=lambda: applied)
    assert bool(report.faults) is not has_key, str(report)
    assert all(set(crash.twice) == {"outside"} for crash in report.faults)


@pytest.mark.parametrize(
    ("one", "why"), [(crash_tasks.plain, "no awaits"), (crash_tasks.broken, "fails without any crash: ValueError")]
)
async def test_what_cannot_be_tried_is_said(one, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        await crash_at_each_await(one, one.request())
