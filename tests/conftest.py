"""Real servers for the tests: one stack for each xdist worker, a fresh database and vhost for each test."""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING

import pytest

from mainspring.devstack import Stack, start_stack

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """A Postgres without fsync and a RabbitMQ, this worker's own; tests that break servers start another."""
    with start_stack(durable=False) as servers:
        yield servers


@pytest.fixture(scope="session")
def template_database(stack: Stack) -> str | None:
    """The name of the database that each test's database is a copy of: migrated once for each worker."""
    name = f"mainspring_template_{os.getpid()}"
    return name if stack.postgres.database_exists(name) else None


@pytest.fixture
def database_url(stack: Stack, template_database: str | None) -> Iterator[str]:
    """The URL of a fresh database, dropped after the test."""
    name = f"test_{secrets.token_hex(6)}"
    yield stack.postgres.create_database(name, template_database)
    stack.postgres.drop_database(name)


@pytest.fixture
def vhost_url(stack: Stack) -> Iterator[str]:
    """The URL of a fresh virtual host, deleted after the test."""
    name = f"test_{secrets.token_hex(6)}"
    yield stack.rabbitmq.create_vhost(name)
    stack.rabbitmq.delete_vhost(name)
