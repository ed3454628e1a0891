"""Free ports on the loopback interface."""

from __future__ import annotations

import random
import socket

# Below the range from which Linux (32768) and macOS (49152) take the ports of outgoing connections: a server
# that is down for a moment must find its port free when it comes back.
_RANGE = range(20_000, 32_000)
# Not the module's generator: pytest-randomly seeds that one alike in every worker, so all would choose alike.
_random = random.SystemRandom()
#: What this process has chosen lately: a server may not have bound it yet, or be down for a moment.
_chosen: set[int] = set()
_MOST_REMEMBERED = len(_RANGE) // 2


def is_free(port: int) -> bool:
    """Whether nothing listens on this port of 127.0.0.1."""
    with socket.socket() as probe:
        # As servers do: connections of the past in TIME_WAIT don't make a port taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_ports(count: int) -> list[int]:
    """Choose that many free ports, others each time; another process may still take one before a server binds it."""
    if len(_chosen) > _MOST_REMEMBERED:
        _chosen.clear()
    chosen: list[int] = []
    while len(chosen) < count:
        port = _random.choice(_RANGE)
        if port not in _chosen and is_free(port):
            _chosen.add(port)
            chosen.append(port)
    return chosen
