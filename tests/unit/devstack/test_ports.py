"""Ports are free, different, and where no outgoing connection takes them."""

from __future__ import annotations

import socket

from mainspring.devstack.ports import free_ports, is_free


def test_ports_are_different_and_below_those_of_outgoing_connections() -> None:
    ports = free_ports(50)
    assert len(set(ports)) == 50
    assert max(ports) < 32768


def test_a_port_that_something_listens_on_is_not_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert not is_free(port)
    assert is_free(port)


def test_none_is_chosen_twice_though_nobody_has_bound_it_yet():
    ports = [port for _ in range(2000) for port in free_ports(1)]
    assert len(set(ports)) == 2000
