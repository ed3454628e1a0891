"""Where a request may go: only to addresses of the public internet, unless the configuration names the place.

A name is resolved once, every address that it has is judged, and the connection is made to a judged address: a name
that resolves otherwise a moment later changes nothing. Addresses inside addresses (IPv4 in IPv6, 6to4, NAT64) are
judged as what they lead to. Environment variables for proxies are not read: a proxy would resolve names by itself.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import httpcore

from mainspring.domain.errors import Permanent
from mainspring.http_task.settings import HttpSettings

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
#: RFC 6052: an IPv4 address in its last 32 bits.
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
#: Closed as well: what Python's tables call global, some of them in some versions, and is not the public internet.
_CLOSED = tuple(
    ipaddress.ip_network(network)
    for network in (
        "192.0.0.0/24",  # RFC 6890: protocol assignments; a cloud's metadata service among them
        "192.88.99.0/24",  # RFC 7526: the former 6to4 relays
        "168.63.129.16/32",  # the host of every virtual machine of one large cloud
        "fec0::/10",  # RFC 3879: site-local
        "3fff::/20",  # RFC 9637: documentation
        "5f00::/16",  # RFC 9602: segment routing
    )
)


class TargetNotAllowed(Permanent):
    """target_not_allowed: the URL leads to where jobs may not go."""

    def __init__(self, host: str, why: str) -> None:
        super().__init__(f"target_not_allowed: {host}: {why}")


@dataclass(frozen=True, slots=True)
class Rules:
    """Which places are open besides public ones, and which are closed whatever they are."""

    networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = ()
    hosts: frozenset[str] = frozenset()
    own_servers: tuple[tuple[str, int], ...] = ()

    @classmethod
    def of(cls, settings: HttpSettings) -> Rules:
        """The rules that the settings state."""
        networks, hosts = [], set()
        for entry in settings.allowed():
            try:
                networks.append(ipaddress.ip_network(entry, strict=False))
            except ValueError:
                hosts.add(entry.rstrip("."))
        return cls(tuple(networks), frozenset(hosts), settings.own_servers())

    def judge(self, host: str, port: int, addresses: Iterable[Address], own: frozenset[tuple[Address, int]]) -> None:
        """Raise TargetNotAllowed unless every address may be called under this name.

        ``own`` are the servers that Mainspring stands on: their machines are closed, and, where the configuration opens
        one, their ports.
        """
        is_named = host.lower().rstrip(".") in self.hosts
        for address in addresses:
            meant = _meant_by(address)
            is_open = is_named or any(address in network for network in self.networks)
            if any((one, port) in own for one in meant) or (not is_open and any(one in meant for one, _ in own)):
                raise TargetNotAllowed(host, f"{address} is a server that Mainspring stands on")
            if not is_open and not all(_is_public(one) for one in meant):
                raise TargetNotAllowed(host, f"{address} is not a public address; MAINSPRING_HTTP_ALLOW can open it")


def _meant_by(address: Address) -> list[Address]:
    """The address, and what it leads to when another one is inside."""
    if isinstance(address, ipaddress.IPv4Address):
        return [address]
    if address in _NAT64:
        return [ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)]
    inner = address.ipv4_mapped or address.sixtofour
    return [inner] if inner else [address]


def _is_public(address: Address) -> bool:
    if any(address in network for network in _CLOSED):
        return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


class JudgedNetwork(httpcore.AsyncNetworkBackend):
    """Connects to judged addresses only."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the first of the host's addresses that answers, if all of them may be called."""
        addresses = await _resolve(host, port)
        self._rules.judge(host, port, addresses, await self._own())
        last: Exception = httpcore.ConnectError(f"{host} has no address")
        for address in addresses:
            try:
                return await self._network.connect_tcp(str(address), port, timeout, local_address, socket_options)
            except httpcore.ConnectError as error:
                last = error
        raise last

    async def _own(self) -> frozenset[tuple[Address, int]]:
        found: set[tuple[Address, int]] = set()
        for host, port in self._rules.own_servers:
            # Who can't tell where these are can't keep away from them: the attempt fails, and is tried again.
            found |= {(address, port) for address in await _resolve(host, port)}
        return frozenset(found)

    async def connect_unix_socket(self, path: str, *_: Any, **__: Any) -> httpcore.AsyncNetworkStream:
        """Never: raises TargetNotAllowed."""
        raise TargetNotAllowed(path, "is a socket of this machine")

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


async def _resolve(host: str, port: int) -> list[Address]:
    """All addresses of a host, in the resolver's order. Raises httpcore.ConnectError when it has none."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise httpcore.ConnectError(f"{host} can't be resolved: {error}") from None
    # A scope ("%eth0") belongs to link-local addresses, which are judged without it.
    return list(dict.fromkeys(ipaddress.ip_address(str(one[4][0]).split("%")[0]) for one in found))
