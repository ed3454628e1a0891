"""A02 and A07: an api that is killed at the worst instant, and clients that send too much, or too slowly."""

from __future__ import annotations

import asyncio
import gzip
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import httpx
import psutil
import pytest

from mainspring.devstack import Stack
from mainspring.devstack.fleet import ServiceProcess, open_fleet
from mainspring.fault_points import VARIABLE as FAULT_POINTS

MEGABYTE = 1_000_000


@dataclass
class Front:
    """An api process that may be killed."""

    process: ServiceProcess
    stack: Stack
    database_url: str

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.process.port}"

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self.process.port

    def count(self, sql: str) -> int:
        return int(self.stack.postgres.execute(sql, self.database_url))

    def resident(self) -> int:
        return int(psutil.Process(self.process.pid).memory_info().rss)


@pytest.fixture
def front(stack: Stack, database_url: str) -> Iterator[Front]:
    urls = {"MAINSPRING_DATABASE_URL": database_url, "MAINSPRING_AMQP_URL": "amqp://127.0.0.1:1"}
    with open_fleet(urls, stack.folder, f"front-{database_url[-12:]}") as fleet:
        process = fleet.start("api", body_seconds=3)
        process.wait_ready()
        yield Front(process, stack, database_url)


def submit(http: httpx.Client, key: str) -> str | None:
    """The id in the answer; None when there was none."""
    try:
        answer = http.post("/v1/jobs", json={"task": "t"}, headers={"Idempotency-Key": key})
    except httpx.TransportError:
        return None
    assert answer.status_code in (201, 409), answer.text
    return str(answer.json()["id"]) if answer.status_code == 201 else None


@pytest.mark.timeout(120)
@pytest.mark.parametrize("chance", [0.2, 1])
def test_a02_a_repeat_after_a_kill_gets_the_job_that_was_stored(front: Front, chance: float) -> None:
    front.process.set_environment(FAULT_POINTS, f"submit.committed={chance}")
    front.process.restart()
    front.process.wait_ready()
    answered: dict[str, str] = {}
    keys: list[str] = []
    while front.process.is_running:
        more = [f"{len(keys) + number}" for number in range(200)]
        keys += more
        with httpx.Client(base_url=front.url, timeout=10) as http, ThreadPoolExecutor(50) as threads:
            first = threads.map(lambda key: submit(http, key), more)
            answered |= {key: found for key, found in zip(more, first, strict=True) if found}
    stored = front.count("SELECT count(*) FROM mainspring.idempotency_keys")
    assert stored > len(answered), "it died between a commit and its answer"
    front.process.set_environment(FAULT_POINTS, "")
    front.process.start()
    front.process.wait_ready()
    with httpx.Client(base_url=front.url, timeout=10) as http:
        again = {key: submit(http, key) for key in keys}
    assert None not in again.values()
    assert {key: again[key] for key in answered} == answered
    assert front.count("SELECT count(*) FROM mainspring.live_jobs") == len(keys)


@pytest.mark.timeout(120)
def test_a07_an_endless_body_is_cut_off_and_costs_no_memory(front: Front) -> None:
    before = front.resident()
    sent = 0
    with socket.create_connection(front.address) as connection:
        connection.sendall(b"POST /v1/jobs HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        chunk = b"10000\r\n" + b" " * 65_536 + b"\r\n"
        try:
            while sent < 200 * MEGABYTE:
                connection.sendall(chunk)
                sent += 65_536
        except (BrokenPipeError, ConnectionResetError):
            pass
    # What lay in the sockets' buffers is counted too.
    assert sent < 16 * 1024 * 1024 + 8 * MEGABYTE
    assert front.resident() - before < 20 * MEGABYTE
    assert httpx.get(f"{front.url}/livez").status_code == 200


def test_a07_a_small_body_that_would_unpack_to_a_large_one_is_not_unpacked(front: Front) -> None:
    before = front.resident()
    bomb = gzip.compress(b" " * 500 * MEGABYTE)
    answer = httpx.post(f"{front.url}/v1/jobs", content=bomb, headers={"Content-Encoding": "gzip"}, timeout=20)
    assert answer.status_code == 422
    assert front.resident() - before < 20 * MEGABYTE


def test_a07_more_bytes_than_were_announced_are_no_second_request(front: Front) -> None:
    with socket.create_connection(front.address) as connection:
        connection.settimeout(10)
        connection.sendall(b'POST /v1/jobs HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n{"task":"t"}{"task":"t"}')
        answer = connection.recv(4096)
    assert answer.split()[1] in (b"400", b"422")
    assert front.count("SELECT count(*) FROM mainspring.live_jobs") == 0


@pytest.mark.timeout(120)
def test_a07_two_hundred_slow_clients_are_cut_off_and_hold_nobody_up(front: Front) -> None:
    ended: list[float] = []
    started = time.monotonic()

    async def dawdle() -> None:
        reader, writer = await asyncio.open_connection(*front.address)
        writer.write(b"POST /v1/jobs HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n")
        while not reader.at_eof():
            try:
                writer.write(b" ")
                await writer.drain()
            except ConnectionError:
                break
            try:
                if await asyncio.wait_for(reader.read(1000), 1):
                    break
            except TimeoutError:
                continue
        ended.append(time.monotonic() - started)
        writer.close()

    async def all_of_them() -> None:
        await asyncio.gather(*(dawdle() for _ in range(200)))

    slow = threading.Thread(target=lambda: asyncio.run(all_of_them()))
    slow.start()
    took = []
    with httpx.Client(base_url=front.url) as http:
        while len(took) < 100:
            before = time.monotonic()
            http.post("/v1/jobs", json={"task": "quick"}).raise_for_status()
            took.append(time.monotonic() - before)
            time.sleep(0.02)
    slow.join(60)
    assert len(ended) == 200
    assert statistics.quantiles(took, n=20)[-1] < 0.5
    assert max(ended) < 3 + 5, "body_seconds is 3 here"
    assert front.count("SELECT count(*) FROM mainspring.live_jobs WHERE task <> 'quick'") == 0
