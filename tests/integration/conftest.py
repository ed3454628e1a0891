"""Fixtures of the integration tests."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mainspring.devstack import Stack
from mainspring.devstack.fleet import Fleet, open_fleet

from .api import Api, start_api
from .system import System

#: What the tests of a module share: one worker of xdist runs them all, for each other one would start it again.
SHARED = {"api", "breakable", "encrypted", "guarded", "module_system", "world"}


@pytest.hookimpl(tryfirst=True)  # before xdist looks for groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep together what shares services or servers."""
    for item in items:
        if SHARED & set(getattr(item, "fixturenames", ())) and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


@pytest.fixture
def fresh_system(stack: Stack, fleet: Fleet, database_url: str) -> Iterator[System]:
    """The services but workers, on a fresh database and virtual host."""
    with closing(System(stack, fleet, database_url)) as one:
        yield one


@pytest.fixture
def system(fresh_system: System) -> System:
    """A fresh one; a module whose tests leave nothing behind makes it the ``shared_system``."""
    return fresh_system


@pytest.fixture(scope="module")
def module_system(stack: Stack, template_database: str) -> Iterator[System]:
    """The services but workers, on a database and a virtual host of their own, for the tests of a module."""
    name = f"shared_{secrets.token_hex(6)}"
    url = stack.postgres.create_database(name, template_database)
    urls = {"MAINSPRING_DATABASE_URL": url, "MAINSPRING_AMQP_URL": stack.rabbitmq.create_vhost(name)}
    with (
        open_fleet(urls, stack.folder, name, PYTHONPATH=str(Path(__file__).parents[1])) as fleet,
        closing(System(stack, fleet, url)) as one,
    ):
        yield one
    stack.rabbitmq.delete_vhost(name)
    stack.postgres.drop_database(name)


@pytest.fixture
def shared_system(module_system: System) -> Iterator[System]:
    """The module's, with empty tables of the handlers'; a test's workers end with it, and so must its jobs."""
    module_system.query("TRUNCATE ledger, effects")
    yield module_system
    module_system.stop_workers()
    assert module_system.count("SELECT count(*) FROM mainspring.live_jobs WHERE state <> 'dead'") == 0


@pytest.fixture(scope="module")
def api(stack: Stack, template_database: str) -> Iterator[Api]:
    """An api process on a database of its own, for all tests of a module."""
    name = f"api_{secrets.token_hex(6)}"
    with start_api(stack, stack.postgres.create_database(name, template_database), body_seconds=2) as one:
        yield one
    stack.postgres.drop_database(name)
