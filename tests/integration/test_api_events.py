"""GET /v1/events: what happens, as it happens, with nothing left out when the line breaks."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import UUID, uuid4

import httpx
import pytest

from mainspring.devstack import Stack
from mainspring.domain.states import State
from mainspring.store.history import Page, Place
from mainspring_services.api import event_feed

from .api import Api, start_api
from .test_api import put_jobs


@dataclass
class Stream:
    """An event stream, read line by line as a browser reads it."""

    lines: Iterator[str]
    last_id: str = ""
    fields: dict[str, str] = field(default_factory=dict)

    def next(self) -> tuple[str, dict]:
        """The next event that has data."""
        while True:
            event = self._block()
            self.last_id = event.get("id", self.last_id)
            if "data" in event:
                return event["event"], json.loads(event["data"])

    def begin(self) -> None:
        """Read what comes before any event: from here on nothing is missed."""
        while not self.last_id:
            self.last_id = self._block().get("id", "")

    def _block(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for line in self.lines:
            if not line:
                return found
            name, _, value = line.partition(": ")
            found[name] = value
        raise EOFError


@contextmanager
def follow(api: Api, last_id: str = "", **query: str) -> Iterator[Stream]:
    headers = {"Last-Event-ID": last_id} if last_id else {}
    with httpx.stream("GET", f"{api.url}/v1/events", params=query, headers=headers, timeout=20) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield Stream(answer.iter_lines())


def cancel(api: Api, job_id: UUID) -> str:
    api.http.post(f"/v1/jobs/{job_id}/cancel").raise_for_status()
    return str(job_id)


def test_what_happens_is_streamed_as_it_happens(api: Api) -> None:
    (job_id,) = put_jobs(api, State.SCHEDULED)
    with follow(api) as stream:
        stream.begin()
        cancel(api, job_id)
        kind, event = stream.next()
    assert kind == event["event"] == "cancel"
    assert (event["job_id"], event["task"], event["queue"]) == (str(job_id), "t", "q")
    assert set(event) == {"at", "event", "job_id", "task", "queue", "fence", "author", "details"}


def test_a_stream_goes_on_where_it_broke(api: Api) -> None:
    jobs = put_jobs(api, *[State.SCHEDULED] * 5)
    with follow(api) as stream:
        stream.begin()
        first = cancel(api, jobs[0])
        assert stream.next()[1]["job_id"] == first
        last_id = stream.last_id
    missed = [cancel(api, job_id) for job_id in jobs[1:4]]
    with follow(api, last_id) as stream:
        assert [stream.next()[1]["job_id"] for _ in missed] == missed
        live = cancel(api, jobs[4])
        assert stream.next()[1]["job_id"] == live


def test_many_followers_see_each_event_once(api: Api) -> None:
    jobs = put_jobs(api, *[State.SCHEDULED] * 12)
    seen: list[list[str]] = []
    ready = threading.Barrier(6)

    def read() -> None:
        with follow(api, event="cancel") as stream:
            stream.begin()
            ready.wait()
            found = [stream.next()[1]["job_id"] for _ in jobs]
        seen.append(found)

    readers = [threading.Thread(target=read) for _ in range(5)]
    for reader in readers:
        reader.start()
    ready.wait()
    cancelled = [cancel(api, job_id) for job_id in jobs]
    for reader in readers:
        reader.join(20)
    assert [sorted(one) for one in seen] == [sorted(cancelled)] * 5


def test_a_filter_leaves_out_the_others(api: Api) -> None:
    other, wanted = put_jobs(api, State.SCHEDULED, State.SCHEDULED)
    with follow(api, job_id=str(wanted)) as stream:
        stream.begin()
        cancel(api, other)
        cancel(api, wanted)
        assert stream.next()[1]["job_id"] == str(wanted)


@pytest.mark.parametrize("last_id", ["yesterday", "1:2", "999999999999:999999999999:", "\u00b2:1:"])
def test_a_forged_id_is_a_problem(api: Api, last_id: str) -> None:
    answer = api.http.get("/v1/events", headers={"Last-Event-ID": last_id.encode("latin-1")})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "Last-Event-ID"


def test_a_large_transaction_neither_holds_a_stream_up_nor_the_api(api: Api) -> None:
    """More rows at once than a page has, for one who wants them all and for one who wants none of them."""
    (wanted,) = put_jobs(api, State.SCHEDULED)
    count = 2 * event_feed.PAGE_ROWS
    write = (
        "INSERT INTO mainspring.events (job_id, event) SELECT gen_random_uuid(), 'flood' FROM generate_series(1, 2000)"
    )
    with follow(api, event="flood") as all_of_them, follow(api, job_id=str(wanted)) as none_of_them:
        all_of_them.begin()
        none_of_them.begin()
        api.stack.postgres.execute(write, api.database_url)
        for _ in range(count):
            all_of_them.next()
        cancel(api, wanted)
        assert none_of_them.next()[1]["event"] == "cancel"
    assert api.http.get("/livez").status_code == 200


def test_a_feed_that_is_behind_by_pages_gives_each_row_once() -> None:
    """The common page is read in pieces: a follower takes each piece once, and waits in between."""

    async def work() -> list[int]:
        is_written = False
        pieces = [Page([{"xact": n} for n in range(2, 5)], Place(5, frozenset()), is_last=False)]
        pieces.append(Page([{"xact": 5}], Place(6, frozenset())))
        feed = event_feed.EventFeed(None)  # type: ignore[arg-type]  pages come from below

        async def page(since: Place | None) -> Page:
            if since is None or since.end >= 6 or not is_written:
                return Page([], since or Place(2, frozenset()))
            return pieces[0] if since.end < 5 else pieces[1]

        feed._page = page  # type: ignore[method-assign]
        found: list[int] = []

        async def follow_it() -> None:
            async for one in feed.follow(None):
                found.extend(row["xact"] for row in one.rows)
                if 5 in found:
                    return

        following = asyncio.create_task(follow_it())
        await asyncio.sleep(0)
        for _ in range(2):
            await feed.run_once()
            await asyncio.sleep(0.01)
        is_written = True
        for _ in range(2):
            await feed.run_once()
            await asyncio.sleep(0.01)
        await asyncio.wait_for(following, 5)
        return found

    assert asyncio.run(work()) == [2, 3, 4, 5]


def test_a_revoked_key_ends_its_stream(stack: Stack, template_database: str) -> None:
    name = f"events_{uuid4().hex[:10]}"
    url = stack.postgres.create_database(name, template_database)
    with start_api(stack, url) as own:
        environment = os.environ | {"MAINSPRING_DATABASE_URL": url}
        keys = [sys.executable, "-m", "mainspring.cli.main", "keys"]
        made = subprocess.run(
            [*keys, "create", "k", "--scope", "read", "--json"], env=environment, capture_output=True, check=True
        )
        key = json.loads(made.stdout)
        time.sleep(2.5)  # the api reads its keys every two seconds
        headers = {"Authorization": f"Bearer {key['key']}"}
        with httpx.stream("GET", f"{own.url}/v1/events", headers=headers, timeout=20) as answer:
            assert answer.status_code == 200
            subprocess.run([*keys, "revoke", str(key["id"])], env=environment, capture_output=True, check=True)
            assert "".join(answer.iter_text()).startswith("retry")  # it ends
    stack.postgres.drop_database(name)
