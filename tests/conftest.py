"""Real servers for every test that needs them: a stack for each xdist worker, a database and vhost for each test."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from mainspring.devstack import Stack, start_stack
from mainspring.devstack.fleet import Fleet, ServiceProcess, open_fleet
from mainspring.store.migrate import migrate
from mainspring.store.pool import Database

from .tools.fork_server import ForkServer


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The slow ones first: none is left for the end, when the other workers have nothing more to do."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.fixture(scope="session", autouse=True)
def fork_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Services start by fork from here on, in a twentieth of the time."""
    server: ForkServer | None = None

    def begin(argv: Sequence[str], **options: Any) -> Any:
        nonlocal server
        # Most modules start none.
        server = server or ForkServer(tmp_path_factory.mktemp("fork"))
        return server.start(argv, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ServiceProcess, "begin", staticmethod(begin))
        yield
    if server is not None:
        server.close()


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """A Postgres without fsync and a RabbitMQ, private to this worker; tests that break servers start their own."""
    with start_stack(durable=False) as servers:
        yield servers


@pytest.fixture(scope="session")
def template_database(stack: Stack) -> str:
    """The name of the database that each test's database is a copy of: migrated once for each worker."""
    name = f"mainspring_template_{os.getpid()}"
    asyncio.run(migrate(stack.postgres.create_database(name, None)))
    return name


@pytest.fixture
def database_url(stack: Stack, template_database: str) -> Iterator[str]:
    """The URL of a fresh, migrated database, dropped after the test."""
    name = f"test_{secrets.token_hex(6)}"
    yield stack.postgres.create_database(name, template_database)
    stack.postgres.drop_database(name)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """A pool on a fresh, migrated database."""
    async with Database(database_url, "test", most=20) as one:
        yield one


@pytest.fixture
def vhost_url(stack: Stack) -> Iterator[str]:
    """The URL of a fresh virtual host, deleted after the test."""
    name = f"test_{secrets.token_hex(6)}"
    yield stack.rabbitmq.create_vhost(name)
    stack.rabbitmq.delete_vhost(name)


@pytest.fixture
def fleet(stack: Stack, database_url: str, vhost_url: str) -> Iterator[Fleet]:
    """Services as real processes on a fresh database and virtual host; none is started yet."""
    urls = {"MAINSPRING_DATABASE_URL": database_url, "MAINSPRING_AMQP_URL": vhost_url}
    name = f"services-{secrets.token_hex(4)}"
    with open_fleet(urls, stack.folder, name, PYTHONPATH=str(Path(__file__).parent)) as services:
        yield services
