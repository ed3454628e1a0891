"""Fixtures of the integration tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mainspring.devstack import Stack
from mainspring.devstack.fleet import Fleet

from .system import System


@pytest.fixture
def system(stack: Stack, fleet: Fleet, database_url: str) -> Iterator[System]:
    """The services but workers, on a fresh database and virtual host."""
    one = System(stack, fleet, database_url)
    yield one
    one.http.close()
