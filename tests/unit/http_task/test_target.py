"""A03: which addresses the http task may call."""

from __future__ import annotations

import ipaddress

import pytest

from mainspring.http_task.settings import HttpSettings
from mainspring.http_task.target import Rules, TargetNotAllowed

PUBLIC = ["93.184.215.14", "8.8.8.8", "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "64:ff9b::808:808", "::ffff:8.8.8.8"]
CLOSED = [
    *("127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1"),  # noqa: S104
    *("169.254.169.254", "169.254.0.1", "100.64.0.1", "100.127.255.255", "192.0.0.1", "192.0.2.1", "198.18.0.1"),
    *("198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255"),
    *("::", "::1", "fe80::1", "fc00::1", "fd12:3456::1", "ff02::1", "2001:db8::1", "::7f00:1"),
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "2002:7f00:1::", "2002:a9fe:a9fe::1"),
    *("192.0.0.8", "192.0.0.192", "192.88.99.1", "168.63.129.16", "fec0::1", "feff::1", "3fff::1", "5f00::1"),
    *("64:ff9b::7f00:1", "64:ff9b::a00:1", "2001:0:4136:e378:8000:63bf:80ff:fffe"),
]


def judge(address: str, rules: Rules | None = None, *, port: int = 80, own=frozenset()) -> None:
    (rules or Rules()).judge("name.example", port, [ipaddress.ip_address(address)], own)


@pytest.mark.parametrize("address", PUBLIC)
def test_a03_a_public_address_may_be_called(address: str) -> None:
    judge(address)


@pytest.mark.parametrize("address", CLOSED)
def test_a03_no_other_address_may_be_called(address: str) -> None:
    with pytest.raises(TargetNotAllowed, match=r"target_not_allowed: name\.example"):
        judge(address)


def test_a03_one_closed_address_closes_the_name() -> None:
    both = [ipaddress.ip_address(one) for one in ("8.8.8.8", "10.0.0.1")]
    with pytest.raises(TargetNotAllowed):
        Rules().judge("name.example", 80, both, frozenset())


@pytest.mark.parametrize("allow", ["10.0.0.0/8", "10.0.0.1", "Name.Example", " 192.168.0.0/16 , name.example."])
def test_the_configuration_can_open_a_network_an_address_or_a_name(allow: str) -> None:
    judge("10.0.0.1", Rules.of(HttpSettings(allow=allow)))


@pytest.mark.parametrize("allow", ["10.1.0.0/16", "example", "other.example", ""])
def test_the_configuration_opens_no_more_than_it_names(allow: str) -> None:
    with pytest.raises(TargetNotAllowed):
        judge("10.0.0.1", Rules.of(HttpSettings(allow=allow)))


def test_mainspring_s_own_servers_are_closed_wherever_they_are() -> None:
    own = frozenset({(ipaddress.ip_address("8.8.8.8"), 5432)})
    opened = Rules.of(HttpSettings(allow="8.8.8.8"))
    for port, rules in ((5432, Rules()), (80, Rules()), (5432, opened)):
        with pytest.raises(TargetNotAllowed, match="stands on"):
            judge("8.8.8.8", rules, port=port, own=own)
    judge("8.8.8.8", opened, port=80, own=own)


def test_mainspring_s_own_servers_are_read_from_its_urls() -> None:
    settings = HttpSettings(
        database_url="postgresql://me:secret@one:6432,two/database", amqp_url="amqps://a/,amqp://guest:guest@b:5673/v"
    )
    assert set(settings.own_servers()) == {("one", 6432), ("two", 5432), ("a", 5671), ("b", 5673)}
