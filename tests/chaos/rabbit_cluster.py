"""RabbitMQ as three nodes on this machine, and what can happen to one of them.

The nodes find each other by a list in their configuration, share an epmd and a cookie, and listen on 127.0.0.1 only.
A minority that is cut off pauses itself, as RabbitMQ's guide "Clustering and Network Partitions" advises for three
nodes: its clients are sent away, and it comes back by itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPException
from typing import Any, TypeVar

from mainspring.devstack import RabbitMQ
from mainspring.devstack.errors import NotReadyError, RefusedError
from mainspring.devstack.programs import RabbitPrograms
from mainspring.devstack.rabbitmq import RabbitProgram
from mainspring.devstack.workspace import Workspace

T = TypeVar("T")
SIZE = 3
WHOLE_SECONDS = 120.0
#: A cookie that no node has.
WRONG = "cut"


class RabbitCluster:
    """Three nodes; asked through any of them that answers."""

    def __init__(self, workspace: Workspace, programs: RabbitPrograms) -> None:
        config = {"cluster_partition_handling": "pause_minority"}
        self._programs: list[RabbitProgram] = []
        for number in range(1, SIZE + 1):
            beside = self._programs[0] if self._programs else None
            one = RabbitProgram(
                workspace, programs, config, quick_counts=True, folder=f"rabbitmq-{number}", beside=beside
            )
            self._programs.append(one)
        # Read when a node's configuration is written, and all names are known by then.
        for number, one in enumerate(self._programs, start=1):
            config[f"cluster_formation.classic_config.nodes.{number}"] = one.node
        self.nodes = [RabbitMQ(one) for one in self._programs]

    @property
    def url(self) -> str:
        """The nodes' URLs, as MAINSPRING_AMQP_URL takes them."""
        return ",".join(one.url for one in self.nodes)

    def begin(self) -> None:
        """Start the nodes' processes."""
        for one in self.nodes:
            one.begin()

    def finish(self) -> None:
        """Wait until the nodes serve and are one cluster."""
        for one in self.nodes:
            one.finish()
        self.wait_whole()

    def close(self) -> None:
        """Kill the nodes."""
        for one in self.nodes:
            one.kill()
        for one in self.nodes:
            one.close()

    def wait_whole(self) -> None:
        """Wait until every node accepts connections and sees all the others. Raises NotReadyError."""
        give_up_at = time.monotonic() + WHOLE_SECONDS
        while not all(self._is_whole(one) for one in self.nodes):
            if time.monotonic() > give_up_at:
                raise NotReadyError("the nodes of RabbitMQ don't come together")
            time.sleep(0.2)
        for one in self.nodes:
            one.wait_ready()

    def cut_off(self, one: RabbitMQ) -> None:
        """Part a node from the others at once: each refuses the other's cookie, and their connections are ended."""
        self._set_cookies(one, f"'{WRONG}'", "erlang:disconnect_node(Node)")

    def heal(self, one: RabbitMQ) -> None:
        """Let a node that was cut off come back."""
        self._set_cookies(one, "erlang:get_cookie()", "net_kernel:connect_node(Node)")

    def queues(self, vhost: str) -> list[dict[str, Any]]:
        """The virtual host's queues, with their counts of messages."""
        return self._ask(lambda one: one.queues(vhost))

    def delete_queue(self, vhost: str, name: str) -> None:
        """Delete a queue with its messages and bindings."""
        self._ask(lambda one: one.delete_queue(vhost, name))

    def close_connections(self, vhost: str) -> None:
        """Break all AMQP connections."""
        self._ask(lambda one: one.close_connections(vhost))

    def _ask(self, question: Callable[[RabbitMQ], T]) -> T:
        """The answer of the first node that has one."""
        for one in self.nodes[:-1]:
            with suppress(OSError, HTTPException):
                return question(one)
        return question(self.nodes[-1])

    def _set_cookies(self, one: RabbitMQ, cookie: str, then: str) -> None:
        """On this node: first the cookies for both others, then what follows from it, so that none slips through."""
        here = self._programs[self.nodes.index(one)].node
        others = ",".join(f"'{program.node}'" for program in self._programs if program.node != here)
        each = "lists:foreach(fun(Node) -> {} end, [" + others + "])"
        words = [each.format(f"erlang:set_cookie(Node, {cookie})"), each.format(then)]
        one.control("eval", ", ".join(words) + ".")

    @staticmethod
    def _is_whole(one: RabbitMQ) -> bool:
        try:
            seen = one.management.ask("GET", "nodes")
        except (OSError, HTTPException, RefusedError, ValueError):
            return False
        return len(seen) == SIZE and all(node["running"] for node in seen)
