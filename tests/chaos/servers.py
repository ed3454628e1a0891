"""The servers of a chaos run: private ones always, since they are broken."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from mainspring.devstack import Postgres, RabbitMQ
from mainspring.devstack.postgres import PostgresProgram
from mainspring.devstack.provision import postgres_binaries, psql_program, rabbit_programs
from mainspring.devstack.rabbitmq import RabbitProgram
from mainspring.devstack.stack import AMQP_URL, DATABASE_URL
from mainspring.devstack.workspace import Workspace, open_workspace

from .mix import Mix
from .rabbit_cluster import RabbitCluster
from .standby import PostgresPair

#: A killed process loses nothing without it; only a machine's crash would.
SETTINGS = {"fsync": "off"}


@dataclass(frozen=True)
class Servers:
    """Postgres and RabbitMQ, each alone or several."""

    postgres: Postgres | PostgresPair
    rabbitmq: RabbitMQ | RabbitCluster
    #: Temporary: what lies in it goes with the servers.
    folder: Path

    def environment(self) -> dict[str, str]:
        """The variables that lead a service to these servers."""
        return {DATABASE_URL: self.postgres.url, AMQP_URL: self.rabbitmq.url}

    @property
    def broker(self) -> RabbitMQ:
        """RabbitMQ, in a mix with one node."""
        assert isinstance(self.rabbitmq, RabbitMQ)
        return self.rabbitmq

    @property
    def cluster(self) -> RabbitCluster:
        """RabbitMQ, in a mix with three nodes."""
        assert isinstance(self.rabbitmq, RabbitCluster)
        return self.rabbitmq

    @property
    def pair(self) -> PostgresPair:
        """Postgres, in a mix with a standby."""
        assert isinstance(self.postgres, PostgresPair)
        return self.postgres


@contextmanager
def open_servers(mix: Mix) -> Iterator[Servers]:
    """Start the mix's servers, and kill them when the block ends. Raises DevstackError."""
    with ExitStack() as cleanup:
        workspace = cleanup.enter_context(open_workspace())
        both = (_rabbitmq(workspace, mix), _postgres(workspace, mix))
        for one in both:
            cleanup.callback(one.close)
        for one in both:
            one.begin()
        for one in both:
            one.finish()
        yield Servers(both[1], both[0], workspace.path)


def _rabbitmq(workspace: Workspace, mix: Mix) -> RabbitMQ | RabbitCluster:
    if mix.broker == "cluster":
        return RabbitCluster(workspace, rabbit_programs())
    return RabbitMQ(RabbitProgram(workspace, rabbit_programs(), {}, quick_counts=True))


def _postgres(workspace: Workspace, mix: Mix) -> Postgres | PostgresPair:
    binaries = postgres_binaries(workspace.account, None)
    psql = psql_program(binaries)
    if mix.postgres == "standby":
        return PostgresPair(workspace, binaries, psql, SETTINGS)
    return Postgres(psql, PostgresProgram(workspace, binaries, SETTINGS))
