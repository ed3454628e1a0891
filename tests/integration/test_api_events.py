"""GET /v1/events: what happens, as it happens, with nothing left out when the line breaks."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import UUID

import httpx
import pytest

from mainspring.domain.states import State

from .api import Api
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
