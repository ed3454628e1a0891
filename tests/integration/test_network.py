"""D04 and its kind: the network between the services and their servers loses, delays and resets."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from mainspring.broker import topology
from mainspring.broker.connection import Unconfirmed, connect, declare
from mainspring.broker.messages import JobBatch
from mainspring.broker.publisher import CONFIRM_SECONDS, Publisher
from mainspring.devstack import Stack
from mainspring.devstack.fleet import open_fleet
from mainspring.domain.errors import DatabaseUnavailable
from mainspring.domain.job import JobRef
from mainspring.store import fleet, session
from mainspring.store.pool import Database
from mainspring.store.session import HOST_SECONDS
from tests.tools.tcp_proxy import FAIR, TcpProxy, Weather, proxied

from .system import System


@dataclass(frozen=True)
class Network:
    """A system whose two servers are behind a proxy each."""

    system: System
    postgres: TcpProxy
    rabbitmq: TcpProxy


@pytest.fixture
def network(stack: Stack, database_url: str, vhost_url: str) -> Iterator[Network]:
    with ExitStack() as closing:
        postgres, through_postgres = closing.enter_context(proxied(database_url))
        rabbitmq, through_rabbitmq = closing.enter_context(proxied(vhost_url))
        urls = {"MAINSPRING_DATABASE_URL": through_postgres, "MAINSPRING_AMQP_URL": through_rabbitmq}
        path = os.fspath(Path(__file__).parents[1])
        fleet = closing.enter_context(
            open_fleet(urls, stack.folder, f"network-{secrets.token_hex(4)}", PYTHONPATH=path)
        )
        system = System(stack, fleet, database_url)
        yield Network(system, postgres, rabbitmq)
        system.close()


async def test_d04_a_confirm_that_never_comes_is_an_unknown_within_the_timeout(vhost_url: str) -> None:
    link = await connect(vhost_url, "test")
    await declare(link, topology.fixed())
    await declare(link, topology.for_queue("q"))
    with proxied(vhost_url) as (proxy, through):
        publisher = Publisher(through, "test")
        batches = [JobBatch("q", (JobRef(uuid4(), 1),)) for _ in range(50)]
        await publisher.publish_work(batches[0])
        proxy.weather = Weather(swallows_answers=True)
        began = time.monotonic()
        answers = await asyncio.gather(*(publisher.publish_work(one) for one in batches), return_exceptions=True)
        assert time.monotonic() - began < CONFIRM_SECONDS + 3
        assert {type(answer) for answer in answers} == {Unconfirmed}
        proxy.weather = FAIR
        # They had arrived: publishing again makes second copies, which is what tickets are for.
        await asyncio.gather(*(publisher.publish_work(one) for one in batches))
        await publisher.close()
    channel = await link.channel()
    queue = await channel.declare_queue(topology.work_queue("q"), passive=True)
    assert queue.declaration_result.message_count == 1 + 50 + 50
    await link.close()


def lost_confirms(network: Network) -> None:
    network.rabbitmq.weather = Weather(swallows_answers=True)


def lost_replies(network: Network) -> None:
    network.postgres.weather = Weather(swallows_answers=True)


def resets(network: Network) -> None:
    for proxy in (network.postgres, network.rabbitmq):
        proxy.weather = Weather(refuses=True)
        proxy.cut(reset=True)


#: And within how many seconds of its end all jobs have. What the broker believes to have delivered comes again when the
#: connection ends, or is found by time.
TROUBLE = {lost_confirms: 45, lost_replies: 20, resets: 20}


@pytest.mark.timeout(150)
@pytest.mark.parametrize("trouble", TROUBLE, ids=lambda trouble: trouble.__name__)
def test_d04_three_seconds_of_trouble_lose_nothing_and_repeat_no_effect(
    network: Network, trouble: Callable[[Network], None]
) -> None:
    system = network.system
    system.worker(slots=10)
    system.ready()
    jobs = [{"task": "fleet.effect", "payload": {"seconds": 0.2}} for _ in range(50)]
    answer = system.http.post("/v1/jobs/batch", json={"jobs": jobs})
    trouble(network)
    time.sleep(3)
    network.postgres.weather = network.rabbitmq.weather = FAIR
    # A connection that lost bytes is of no use any more; both ends find that out by their timeouts.
    back_at = time.monotonic()
    for job in answer.json()["jobs"]:
        # Until then an answer may be 503: the api has connections, too.
        system.until(lambda url=f"/v1/jobs/{job['id']}": system.http.get(url).json().get("state") == "succeeded", 60)
    assert time.monotonic() - back_at < TROUBLE[trouble]
    assert system.query("SELECT count(*), count(DISTINCT job) FROM effects") == "50|50"


async def test_a_host_that_hangs_doesnt_keep_from_the_next(database_url: str) -> None:
    with proxied(database_url) as (proxy, hanging):
        proxy.weather = Weather(swallows_requests=True)
        hosts = f"{urlsplit(hanging).netloc},{urlsplit(database_url).netloc.rpartition('@')[2]}"
        url = urlsplit(database_url)._replace(netloc=hosts, query="target_session_attrs=read-write").geturl()
        async with Database(url, "test", most=4) as database:
            for seconds in (2 * HOST_SECONDS + 1, 1):
                began = time.monotonic()
                assert await database.run(fleet.now)
                # The first time it is found out, and remembered.
                assert time.monotonic() - began < seconds
                database.renew()
        assert proxy.accepted > 0


async def test_a_server_that_hangs_once_it_is_connected_to_holds_up_nobody_for_ever(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with proxied(database_url) as (proxy, through):
        connect_to = session.connect

        async def connect_and_hang(*given: Any, **options: Any) -> Any:
            connection = await connect_to(*given, **options)
            proxy.weather = Weather(swallows_requests=True)
            return connection

        monkeypatch.setattr(session, "connect", connect_and_hang)
        async with Database(through, "test") as database:
            began = time.monotonic()
            asked = [database.run(fleet.now) for _ in range(2)]
            first, second = await asyncio.gather(*asked, return_exceptions=True)
            assert isinstance(first, DatabaseUnavailable)
            assert isinstance(second, DatabaseUnavailable)
            # One after the other they tried to open.
            assert time.monotonic() - began < 4 * session.CONNECT_SECONDS
            monkeypatch.setattr(session, "connect", connect_to)
            proxy.weather = FAIR
            assert await database.run(fleet.now)


async def test_a_host_that_takes_no_writes_is_passed_over(stack: Stack, database_url: str) -> None:
    name = urlsplit(database_url).path.lstrip("/")
    stack.postgres.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    hosts = ",".join([urlsplit(database_url).netloc.rpartition("@")[2]] * 2)
    url = urlsplit(database_url)._replace(netloc=f"postgres@{hosts}", query="target_session_attrs=read-write").geturl()
    async with Database(url, "test") as database:
        with pytest.raises(DatabaseUnavailable):
            await database.run(fleet.now)
    stack.postgres.execute(f'ALTER DATABASE "{name}" RESET default_transaction_read_only')
    async with Database(url, "test") as database:
        assert await database.run(fleet.now)
