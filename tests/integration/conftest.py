"""Fixtures of the integration tests."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from mainspring.devstack import Stack
from mainspring.devstack.fleet import Fleet

from .api import Api, start_api
from .system import System


@pytest.fixture
def system(stack: Stack, fleet: Fleet, database_url: str) -> Iterator[System]:
    """The services but workers, on a fresh database and virtual host."""
    one = System(stack, fleet, database_url)
    yield one
    one.http.close()


@pytest.fixture(scope="module")
def api(stack: Stack, template_database: str) -> Iterator[Api]:
    """An api process on a database of its own, for all tests of a module."""
    name = f"api_{secrets.token_hex(6)}"
    with start_api(stack, stack.postgres.create_database(name, template_database), body_seconds=2) as one:
        yield one
    stack.postgres.drop_database(name)
