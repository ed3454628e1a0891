"""The devstack's servers live through kills, restarts and wipes as they should, and leave nothing behind."""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from mainspring.devstack import Stack, start_stack
from mainspring.devstack.errors import NotOursError, RefusedError, ServerDiedError
from mainspring.devstack.process import unprivileged_account, wait_gone
from mainspring.devstack.programs import _postgres_folders, copied
from mainspring.devstack.stack import AMQP_URL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.xdist_group("devstack")


@pytest.fixture(scope="module")
def breakable() -> Iterator[Stack]:
    """A stack that these tests may break, as long as they leave it running."""
    with start_stack() as servers:
        yield servers


@pytest.fixture
def table(breakable: Stack) -> Iterator[str]:
    """The URL of a database with one committed row."""
    url = breakable.postgres.create_database("kept")
    breakable.postgres.execute("CREATE TABLE kept AS SELECT 42 AS answer", url)
    yield url
    breakable.postgres.drop_database("kept")


@pytest.mark.parametrize("fault", ["restart", "kill"])
def test_committed_rows_survive(breakable: Stack, table: str, fault: str) -> None:
    pids = breakable.postgres.pids()
    getattr(breakable.postgres, fault)()
    breakable.postgres.start()
    assert breakable.postgres.execute("SELECT answer FROM kept", table) == "42"
    assert not set(pids) & set(breakable.postgres.pids())


def test_a_wiped_postgres_is_empty_and_on_the_same_port(breakable: Stack, table: str) -> None:
    breakable.postgres.wipe()
    with pytest.raises(RefusedError, match='database "kept" does not exist'):
        breakable.postgres.execute("SELECT 1", table)


def test_a_killed_postgres_is_gone_with_its_backends(breakable: Stack) -> None:
    pids = breakable.postgres.pids()
    breakable.postgres.kill()
    assert len(pids) > 3
    assert wait_gone(pids, timeout=0)
    assert breakable.postgres.pids() == []
    breakable.postgres.start()


def test_killed_servers_leave_no_shared_memory(monkeypatch: pytest.MonkeyPatch, stack: Stack) -> None:
    monkeypatch.setenv(AMQP_URL, stack.rabbitmq.url)
    with start_stack(durable=False) as servers:
        pid = servers.postgres.pids()[0]
        assert pid in creators_of_shared_memory()
        servers.postgres.wipe()
        assert pid not in creators_of_shared_memory()
        pid = servers.postgres.pids()[0]
        assert pid in creators_of_shared_memory()
        assert not [entry for entry in psutil.Process(pid).memory_maps() if "/PostgreSQL." in entry.path]
    assert pid not in creators_of_shared_memory()


def test_a_database_can_be_a_copy_of_another(breakable: Stack, table: str) -> None:
    copy = breakable.postgres.create_database("a copy", template="kept")
    assert breakable.postgres.database_exists("a copy")
    assert breakable.postgres.execute("SELECT answer FROM kept", copy) == "42"
    breakable.postgres.drop_database("a copy")
    assert not breakable.postgres.database_exists("a copy")


def test_a_frozen_server_answers_nothing_until_it_is_thawed(breakable: Stack) -> None:
    for server in (breakable.postgres, breakable.rabbitmq):
        server.freeze()
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.settimeout(0.3)
            connection.sendall(b"AMQP\x00\x00\x09\x01")  # not Postgres's words either, and it would say so
            with pytest.raises(TimeoutError):
                connection.recv(1)
            server.thaw()
            connection.settimeout(10)
            with contextlib.suppress(ConnectionResetError):
                connection.recv(1)
        server.wait_ready(10)


def test_a_frozen_server_can_be_stopped(breakable: Stack) -> None:
    breakable.postgres.freeze()
    breakable.postgres.stop()
    assert breakable.postgres.pids() == []
    breakable.postgres.start()


def test_virtual_hosts_and_what_is_in_them(breakable: Stack) -> None:
    broker = breakable.rabbitmq
    url = broker.create_vhost("a/b")
    assert url == broker.url.replace("%2F", "a%2Fb")
    declare(breakable, "a/b", "jobs")
    assert [(queue["name"], queue["messages"]) for queue in broker.queues("a/b")] == [("jobs", 0)]
    broker.delete_binding("a/b", "amq.direct", "jobs", "a key")
    with pytest.raises(RefusedError, match="no binding of 'jobs'"):
        broker.delete_binding("a/b", "amq.direct", "jobs", "a key")
    broker.delete_queue("a/b", "jobs")
    assert broker.queues("a/b") == []
    broker.delete_exchange("a/b", "own")
    assert "own" not in [exchange["name"] for exchange in broker.management.ask("GET", "exchanges", "a/b")]
    broker.close_connections("a/b")
    broker.delete_vhost("a/b")
    with pytest.raises(RefusedError, match="404"):
        broker.queues("a/b")


def test_a_broker_keeps_its_queues_through_a_kill_and_loses_them_by_a_wipe(breakable: Stack) -> None:
    broker = breakable.rabbitmq
    port, management_url = broker.port, broker.management.url
    broker.create_vhost("durable")
    declare(breakable, "durable", "jobs")
    broker.kill()
    broker.start()
    assert [queue["name"] for queue in broker.queues("durable")] == ["jobs"]
    broker.wipe()
    assert [vhost["name"] for vhost in broker.management.ask("GET", "vhosts")] == ["/"]
    assert (broker.port, broker.management.url) == (port, management_url)


def test_two_stacks_side_by_side_do_not_meet(breakable: Stack, stack: Stack) -> None:
    servers = [breakable.postgres, breakable.rabbitmq, stack.postgres, stack.rabbitmq]
    assert len({server.port for server in servers}) == 4
    stack.rabbitmq.create_vhost("only here")
    assert "only here" not in [vhost["name"] for vhost in breakable.rabbitmq.management.ask("GET", "vhosts")]
    stack.rabbitmq.delete_vhost("only here")


def test_the_settings_are_those_asked_for(breakable: Stack, stack: Stack) -> None:
    assert breakable.postgres.execute("SHOW fsync") == "on"
    assert stack.postgres.execute("SHOW fsync") == "off"
    assert breakable.postgres.execute("SHOW max_connections") == "200"


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user's servers run as that user")
def test_roots_servers_run_as_nobody_of_weight(breakable: Stack) -> None:
    account = unprivileged_account()
    assert account
    pids = main_pids(breakable)
    assert {psutil.Process(pid).uids().effective for pid in pids} == {account.uid}


def test_servers_listen_on_the_loopback_only(breakable: Stack) -> None:
    pids = main_pids(breakable)
    sockets = [entry for pid in pids for entry in psutil.Process(pid).net_connections("inet")]
    assert {entry.laddr.ip.removeprefix("::ffff:") for entry in sockets if entry.status == "LISTEN"} == {"127.0.0.1"}


def test_a_server_that_loses_its_port_to_another_takes_another(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as squatter, start_stack(durable=False) as servers:
        taken = squatter.getsockname()[1]
        server = servers.postgres
        server.kill()
        server._ports_are_final = False  # as before its first start
        monkeypatch.setattr("mainspring.devstack.postgres.free_ports", in_turn([taken], [server.port]))
        server.start()
        assert server.port != taken
        monkeypatch.setattr("mainspring.devstack.postgres.free_ports", lambda _count: [taken])
        server.kill()
        server._ports_are_final = False
        with pytest.raises(ServerDiedError, match="already in use"):
            server.start()


def test_a_broker_that_loses_its_port_to_another_takes_another(
    breakable: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = breakable.rabbitmq
    with socket.create_server(("127.0.0.1", 0)) as squatter:
        server.kill()
        usual = [server.port, server._rabbit.management_port, server._rabbit._dist_port]
        server._ports_are_final = False
        choices = in_turn([squatter.getsockname()[1], *usual[1:]], usual)
        monkeypatch.setattr("mainspring.devstack.rabbitmq.free_ports", choices)
        server.start()
    assert server.port == usual[0]


@pytest.mark.parametrize("binaries", list(dict.fromkeys(filter(Path.exists, _postgres_folders()))), ids=str)
def test_a_copy_of_every_postgres_starts(binaries: Path, stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(AMQP_URL, stack.rabbitmq.url)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        for module in ("cache", "programs"):
            monkeypatch.setattr(f"mainspring.devstack.{module}.cache_folder", lambda: Path(folder))
        copy = copied(binaries)
        assert copy.is_relative_to(folder)
        with start_stack(postgres_bin=copy) as servers:
            assert servers.postgres.execute("SELECT 1") == "1"


@pytest.mark.parametrize("binaries", list(dict.fromkeys(filter(Path.exists, _postgres_folders()))), ids=str)
def test_every_postgres_of_this_machine_starts(binaries: Path, stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(AMQP_URL, stack.rabbitmq.url)
    with start_stack(postgres_bin=binaries, settings={"work_mem": "7MB"}) as servers:
        assert servers.postgres.execute("SHOW work_mem") == "7MB"
        servers.postgres.kill()
        servers.postgres.start()


def test_given_servers_are_used_and_never_broken(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in stack.environment().items():
        monkeypatch.setenv(name, value)
    before = main_pids(stack)
    with start_stack() as given:
        assert (given.postgres.url, given.rabbitmq.url) == (stack.postgres.url, stack.rabbitmq.url)
        given.postgres.create_database("by the guest")
        given.postgres.drop_database("by the guest")
        given.rabbitmq.create_vhost("by the guest")
        given.rabbitmq.delete_vhost("by the guest")
        for server in (given.postgres, given.rabbitmq):
            for fault in ("kill", "stop", "freeze", "thaw", "restart", "wipe", "start", "pids"):
                with pytest.raises(NotOursError, match="was given by its URL"):
                    getattr(server, fault)()
    assert main_pids(stack) == before


def main_pids(stack: Stack) -> list[int]:
    """The pids of the two servers without their children, which come and go."""
    return [stack.postgres.pids()[0], stack.rabbitmq.pids()[0]]


def creators_of_shared_memory() -> set[int]:
    """The pids of the processes that created the System V segments of this machine (proc(5))."""
    lines = Path("/proc/sysvipc/shm").read_text().splitlines()
    return {int(line.split()[4]) for line in lines[1:]}


def declare(stack: Stack, vhost: str, queue: str) -> None:
    """Make a durable queue, bind it to amq.direct by `a key`, and make an exchange `own`."""
    ask = stack.rabbitmq.management.ask
    ask("PUT", "queues", vhost, queue, body={"durable": True})
    ask("POST", "bindings", vhost, "e", "amq.direct", "q", queue, body={"routing_key": "a key"})
    ask("PUT", "exchanges", vhost, "own", body={"type": "direct"})


def in_turn(*choices: list[int]) -> Callable[[int], list[int]]:
    """A chooser of ports that makes these choices one after the other."""
    remaining = iter(choices)
    return lambda _count: next(remaining)
