"""RabbitMQ: a private node and what tests ask of it."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from mainspring.devstack.errors import NotOursError, RefusedError
from mainspring.devstack.log import ServerLog
from mainspring.devstack.management import Management
from mainspring.devstack.ports import free_ports, is_free
from mainspring.devstack.rabbit_home import small_home
from mainspring.devstack.server import Server

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping

    from mainspring.devstack.programs import RabbitPrograms
    from mainspring.devstack.workspace import Workspace

_SCHEDULERS = min(os.cpu_count() or 1, 4)
# RabbitMQ's "Runtime Tuning" guide: a node that shares its cores shouldn't spin while it waits for work.
_NO_BUSY_WAIT = "+sbwt none +sbwtdcpu none +sbwtdio none"
PLUGINS = ["rabbitmq_management"]
CONFIG: Mapping[str, str] = {
    "vm_memory_high_watermark.absolute": "1GB",
    "disk_free_limit.absolute": "50MB",
    "log.console": "true",
    "log.console.level": "warning",
    # Statistics for the console's graphs cost a broker much; counts of messages are to be had without them.
    "management_agent.disable_metrics_collector": "true",
}
# How often queues report their counts, in ms; the usual 5 s would make every test that counts wait, and more often
# costs an idle node half of its CPU. And how soon a quorum queue dead-letters again what found no exchange while the
# node was booting: three minutes is longer than any test waits for the broker to be empty.
_QUICK_COUNTS = (
    "[{rabbit, [{quorum_tick_interval, 300}, {collect_statistics_interval, 300},"
    " {dead_letter_worker_publisher_confirm_timeout, 5000}]}].\n"
)
_USUAL_COUNTS = "[].\n"


class RabbitProgram:
    """How a private RabbitMQ node is made and started: nothing outside of its folder, no epmd but its own.

    A node of a cluster is made ``beside`` the cluster's first, whose epmd and cookie it shares.
    """

    name = "RabbitMQ"
    stop_signal = signal.SIGTERM

    def __init__(
        self,
        workspace: Workspace,
        programs: RabbitPrograms,
        config: Mapping[str, str],
        *,
        quick_counts: bool,
        folder: str = "rabbitmq",
        beside: RabbitProgram | None = None,
    ) -> None:
        self.port = self.management_port = self._epmd_port = self._dist_port = 0
        self._workspace = workspace
        self._programs = programs
        self._config = config
        self._advanced = _QUICK_COUNTS if quick_counts else _USUAL_COUNTS
        self._home = workspace.folder(folder)
        self.log = ServerLog(self._home / "log")
        #: The node's name in Erlang.
        self.node = f"mainspring-{secrets.token_hex(4)}@localhost"
        self._server = small_home(programs.server, self._home / "home", ["rabbit", *PLUGINS])
        self._first = beside or self
        self._cookie = secrets.token_hex(16)
        self._epmd: subprocess.Popen[bytes] | None = None

    def choose_ports(self) -> None:
        """Take other free ports: for AMQP, management, and Erlang's distribution."""
        self.port, self.management_port, self._dist_port = free_ports(3)

    @property
    def management_url(self) -> str:
        """The URL of the node's management API."""
        return f"http://guest:guest@127.0.0.1:{self.management_port}"

    def create(self) -> None:
        """Write the node's configuration; the node itself makes its data."""
        lines = {**CONFIG, **self._listeners(), **self._config}
        conf = "".join(f"{name} = {value}\n" for name, value in lines.items())
        self._workspace.write(self._home / "rabbitmq.conf", conf)
        self._workspace.write(self._home / "advanced.config", self._advanced)
        self._workspace.write(self._home / "enabled_plugins", f"[{','.join(PLUGINS)}].\n")
        cookie = self._home / ".erlang.cookie"
        if not cookie.exists():
            self._workspace.write(cookie, self._first._cookie, mode=0o400)

    def erase(self) -> None:
        """Delete the node's data."""
        shutil.rmtree(self._home / "data")

    def launch(self) -> subprocess.Popen[bytes]:
        """Start the node, and its epmd first: one that the node starts would outlive it."""
        self._first._have_epmd()
        return self._workspace.spawn([str(self._server)], self._environment(), self.log.path)

    def is_ready(self, pid: int) -> bool:  # noqa: ARG002 — the node's name tells it from another
        """Whether this very node accepts AMQP connections."""
        return Management(self.management_url).listens(self.node, self.port)

    def control(self, *arguments: str) -> str:
        """Run rabbitmqctl on this node."""
        program = self._programs.server.with_name("rabbitmqctl")
        return self._workspace.run([str(program), "-n", self.node, *arguments], self._environment())

    def close(self) -> None:
        """End the epmd."""
        if self._epmd:
            self._epmd.kill()
            self._epmd.wait()

    def _have_epmd(self) -> None:
        while self._epmd is None or self._epmd.poll() is not None:
            self._epmd = self._launch_epmd()

    def _launch_epmd(self) -> subprocess.Popen[bytes]:
        """Start an epmd on a free port and wait until it listens, or has ended because it lost the port."""
        (self._epmd_port,) = free_ports(1)
        argv = [str(self._programs.epmd), "-port", str(self._epmd_port), "-address", "127.0.0.1"]
        epmd = self._workspace.spawn(argv, self._programs.environment, self.log.path)
        while epmd.poll() is None and is_free(self._epmd_port):
            time.sleep(0.005)
        return epmd

    def _listeners(self) -> dict[str, str]:
        return {
            "listeners.tcp.1": f"127.0.0.1:{self.port}",
            "management.tcp.ip": "127.0.0.1",
            "management.tcp.port": str(self.management_port),
        }

    def _environment(self) -> dict[str, str]:
        home = str(self._home)
        return {
            **self._programs.environment,
            "HOME": home,
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(self._first._epmd_port),
            "RABBITMQ_NODENAME": self.node,
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self._dist_port),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_CONFIG_FILE": f"{home}/rabbitmq.conf",
            "RABBITMQ_ADVANCED_CONFIG_FILE": f"{home}/advanced.config",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{home}/enabled_plugins",
            "RABBITMQ_MNESIA_BASE": f"{home}/data",
            "RABBITMQ_FEATURE_FLAGS_FILE": f"{home}/data/feature_flags",
            "RABBITMQ_GENERATED_CONFIG_DIR": f"{home}/generated",
            "RABBITMQ_PLUGINS_EXPAND_DIR": f"{home}/plugins",
            "RABBITMQ_LOG_BASE": f"{home}/logs",
            "RABBITMQ_LOGS": "-",
            "RUNNING_UNDER_SYSTEMD": "true",  # the start script becomes the node: its pid is the node's
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                f"-kernel inet_dist_use_interface {{127,0,0,1}} +S {_SCHEDULERS}:{_SCHEDULERS} {_NO_BUSY_WAIT}"
            ),
        }


class RabbitMQ(Server):
    """A RabbitMQ broker, private or given by its URL."""

    def __init__(self, program: RabbitProgram | None = None, url: str = "", management_url: str = "") -> None:
        super().__init__("RabbitMQ", program)
        self._rabbit = program
        self._given_url = url
        self._given_management_url = management_url

    @property
    def url(self) -> str:
        """The URL of the virtual host `/`, or the URL that was given."""
        return f"amqp://guest:guest@127.0.0.1:{self._rabbit.port}/%2F" if self._rabbit else self._given_url

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._rabbit.port if self._rabbit else urlsplit(self.url).port or 5672

    @property
    def management(self) -> Management:
        """Its management API."""
        return Management(self._rabbit.management_url if self._rabbit else self._given_management_url)

    def control(self, *arguments: str) -> str:
        """Run ``rabbitmqctl`` on a private node and return what it says; raises RefusedError, NotOursError."""
        if self._rabbit is None:
            raise NotOursError("RabbitMQ was given by its URL; it is controlled where it was started.")
        return self._rabbit.control(*arguments)

    def create_vhost(self, name: str) -> str:
        """Create a virtual host that its creator may do anything in; returns its URL, raises RefusedError."""
        self.management.ask("PUT", "vhosts", name)
        return urlsplit(self.url)._replace(path="/" + quote(name, safe="")).geturl()

    def delete_vhost(self, name: str) -> None:
        """Delete a virtual host with all that is in it."""
        self.management.ask("DELETE", "vhosts", name)

    def queues(self, vhost: str) -> list[dict[str, Any]]:
        """The queues of a virtual host as the management API shows them, among it their counts of messages.

        The counts (`messages`, `messages_ready`, `messages_unacknowledged`) of a private node are up to 0.3 s
        old.
        """
        totals = "?disable_stats=true&enable_queue_totals=true"
        queues: list[dict[str, Any]] = self.management.ask("GET", "queues", vhost, query=totals)
        return queues

    def delete_queue(self, vhost: str, name: str) -> None:
        """Delete a queue with its messages and bindings."""
        self.management.ask("DELETE", "queues", vhost, name)

    def purge_queue(self, vhost: str, name: str) -> None:
        """Drop the messages of a queue that are ready."""
        self.management.ask("DELETE", "queues", vhost, name, "contents")

    def delete_exchange(self, vhost: str, name: str) -> None:
        """Delete an exchange with its bindings."""
        self.management.ask("DELETE", "exchanges", vhost, name)

    def close_connections(self, vhost: str) -> None:
        """Break all AMQP connections to a virtual host, as an operator's click does."""
        for connection in self.management.ask("GET", "vhosts", vhost, "connections"):
            self.management.ask("DELETE", "connections", connection["name"])

    def delete_binding(self, vhost: str, exchange: str, queue: str, routing_key: str) -> None:
        """Delete a queue's bindings to an exchange by this routing key; raises RefusedError without any."""
        path = ("bindings", vhost, "e", exchange, "q", queue)
        bindings = self.management.ask("GET", *path)
        found = [binding for binding in bindings if binding["routing_key"] == routing_key]
        if not found:
            raise RefusedError(f"RabbitMQ: no binding of {queue!r} to {exchange!r} by {routing_key!r}")
        for binding in found:
            self.management.ask("DELETE", *path, binding["properties_key"])
