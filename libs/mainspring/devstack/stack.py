"""The two servers together: given by their URLs, or private ones that live as long as a block."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mainspring.devstack.containers import start_containers
from mainspring.devstack.postgres import Postgres, PostgresProgram
from mainspring.devstack.provision import postgres_binaries, psql_program, rabbit_programs
from mainspring.devstack.rabbitmq import RabbitMQ, RabbitProgram
from mainspring.devstack.workspace import Workspace, open_workspace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

DATABASE_URL = "MAINSPRING_DATABASE_URL"
AMQP_URL = "MAINSPRING_AMQP_URL"
MANAGEMENT_URL = "MAINSPRING_AMQP_MANAGEMENT_URL"


@dataclass(frozen=True)
class Stack:
    """A Postgres and a RabbitMQ that are ready."""

    postgres: Postgres
    rabbitmq: RabbitMQ
    folder: Path  # temporary: what lies in it goes with the stack

    def environment(self) -> dict[str, str]:
        """The variables that lead a Mainspring service, or a stack within this one, to these servers."""
        return {
            DATABASE_URL: self.postgres.url,
            AMQP_URL: self.rabbitmq.url,
            MANAGEMENT_URL: self.rabbitmq.management.url,
        }


@contextmanager
def start_stack(
    *,
    containers: bool = False,
    durable: bool = True,
    settings: Mapping[str, str] | None = None,
    config: Mapping[str, str] | None = None,
    postgres_bin: Path | None = None,
) -> Iterator[Stack]:
    """Have a Postgres and a RabbitMQ for the length of a block; what was started for it is gone afterwards.

    containers: take containers where a Docker engine can give them; these can't be broken, frozen or wiped.
    durable: False is for tests that crash no machine: no fsync in Postgres, and queues that report their counts at
    once. settings: more settings of Postgres. config: more lines of rabbitmq.conf. postgres_bin: the folder of
    Postgres's programs. Servers that MAINSPRING_DATABASE_URL and MAINSPRING_AMQP_URL give are used as they are.
    Raises DevstackError.
    """
    durability = {} if durable else {"fsync": "off"}
    with ExitStack() as cleanup:
        workspace = cleanup.enter_context(open_workspace())
        if containers and not _is_any_given() and (urls := start_containers(workspace, cleanup)):
            rabbitmq = RabbitMQ(url=urls.amqp, management_url=urls.management)
            yield Stack(Postgres(psql_program(None), url=urls.database), rabbitmq, workspace.path)
            return
        postgres = _postgres(workspace, {**durability, **(settings or {})}, postgres_bin)
        rabbitmq = _rabbitmq(workspace, config or {}, quick_counts=not durable)
        stack = Stack(postgres, rabbitmq, workspace.path)
        cleanup.callback(_close, stack)
        _start(stack)
        yield stack


def _is_any_given() -> bool:
    return bool(os.environ.get(DATABASE_URL) or os.environ.get(AMQP_URL))


def _start(stack: Stack) -> None:
    """Start both side by side: RabbitMQ takes its seconds while Postgres makes its cluster."""
    ours = [server for server in (stack.rabbitmq, stack.postgres) if server.is_ours]
    for server in ours:
        server.begin()
    for server in ours:
        server.finish()


def _close(stack: Stack) -> None:
    stack.rabbitmq.close()
    stack.postgres.close()


def _postgres(workspace: Workspace, settings: Mapping[str, str], chosen: Path | None) -> Postgres:
    if url := os.environ.get(DATABASE_URL):
        return Postgres(psql_program(None), url=url)
    binaries = postgres_binaries(workspace.account, chosen)
    return Postgres(psql_program(binaries), PostgresProgram(workspace, binaries, settings))


def _rabbitmq(workspace: Workspace, config: Mapping[str, str], *, quick_counts: bool) -> RabbitMQ:
    if urls := os.environ.get(AMQP_URL):
        url = urls.split(",")[0].strip()
        return RabbitMQ(url=url, management_url=os.environ.get(MANAGEMENT_URL) or _usual_management_url(url))
    return RabbitMQ(RabbitProgram(workspace, rabbit_programs(), config, quick_counts=quick_counts))


def _usual_management_url(amqp_url: str) -> str:
    parts = urlsplit(amqp_url)
    credentials = f"{parts.username}:{parts.password}@" if parts.username else ""
    return f"http://{credentials}{parts.hostname}:15672"
