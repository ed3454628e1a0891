"""The system under chaos: real services on private servers, a client that insists, and the ledger."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import httpx

from mainspring.devstack import DevstackError
from mainspring.devstack.fleet import Fleet, ServiceProcess, open_fleet
from mainspring.fault_points import CRASHES, LIES, VARIABLE
from tests.tools.tcp_proxy import TcpProxy, proxied

from . import clocks, old_release
from .checker import LIMIT, RATE
from .clocks import Clocks
from .mix import ONE, Mix
from .old_release import OldRelease
from .servers import Servers, open_servers

TABLES = """
CREATE SCHEMA chaos;
CREATE TABLE chaos.ledger (
    job uuid, attempt int, fence bigint, what text, pid int, at timestamptz DEFAULT clock_timestamp()
);
CREATE TABLE chaos.effects (job uuid, attempt int, fence bigint);
"""
QUICK_LEASE = {"lease": 4, "beat": 1, "margin": 1}
REST_SECONDS = 240.0


class World:
    """What faults are done to, and what is asked afterwards."""

    def __init__(
        self, servers: Servers, fleet: Fleet, clocks: Clocks | None = None, old: OldRelease | None = None
    ) -> None:
        self.servers, self.fleet = servers, fleet
        self.workers: list[ServiceProcess] = []
        self.bad_stops = 0
        #: Held by a fault while it has a process down; the keeper starts what has died by itself.
        self.hands = threading.RLock()
        self.deaths = 0
        #: Processes die at steps of the protocol, by chance.
        self.is_armed = False
        self.clocks, self._old = clocks, old
        #: Before each server, in a mix with a network.
        self.proxies: list[TcpProxy] = []
        #: The services that run the older release.
        self._outdated: set[ServiceProcess] = set()
        self._http = httpx.Client(timeout=10)
        self._is_over = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="keeper")

    def start(self) -> None:
        """Start all services and wait until they are ready. Raises DevstackError."""
        # An upgrade begins with all that there is of the older release, and its schema.
        self.migrate(is_old=self._old is not None)
        self.query(TABLES)
        self.api = self._start("api")
        for name, count in (("scheduler", 2), ("dispatcher", 2), ("dlq_handler", 1)):
            for _ in range(count):
                self._start(name, **({"beat": 1} if name == "scheduler" else {}))
        for _ in range(2):
            modules = ["chaos_tasks", *(["newer_tasks"] if self.is_of_one_release else [])]
            one = self._start("worker", *modules, slots=10, runners=1, stop_grace=2, **QUICK_LEASE)
            self.workers.append(one)
        self._keeper.start()
        self.url = f"http://127.0.0.1:{self.api.port}"
        self._wait_ready()
        if self._old is not None:
            self._upgrade_half()

    @property
    def is_of_one_release(self) -> bool:
        """False where some services are of the older release, which doesn't know all that this one does."""
        return self._old is None

    def migrate(self, *, is_old: bool = False) -> None:
        """Run `mainspring migrate`, of this release or the older one. Raises RefusedError."""
        self.fleet.set_environment("PYTHONPATH", self._path(is_old))
        self.fleet.migrate()

    def swap_version(self, one: ServiceProcess) -> None:
        """Stop a service and start it again with the other release."""
        with self.hands:
            self.stop(one)
            self._outdated ^= {one}
            one.set_environment("PYTHONPATH", self._path(one in self._outdated))
            one.start()

    def skew(self, one: ServiceProcess, seconds: int) -> None:
        """Have a service's clock go so many seconds ahead, or behind."""
        assert self.clocks is not None
        self.clocks.set(self.fleet.services.index(one), seconds)

    def _start(self, service: str, *arguments: str, **settings: object) -> ServiceProcess:
        is_old = self._old is not None
        self.fleet.set_environment("PYTHONPATH", self._path(is_old))
        if self.clocks is not None:
            for name, value in self.clocks.environment(len(self.fleet.services)).items():
                self.fleet.set_environment(name, value)
        one = self.fleet.start(service, *arguments, **settings)
        if is_old:
            self._outdated.add(one)
        return one

    def _path(self, is_old: bool) -> str:
        """Where a service imports from, before anything else: the handlers, and what this process was told."""
        folders = [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]
        if self.clocks is not None:
            folders.insert(0, str(clocks.PATH))
        if is_old and self._old is not None:
            folders.insert(0, self._old.import_path)
        return os.pathsep.join(filter(None, folders))

    def _upgrade_half(self) -> None:
        """The first half of an upgrade without a pause: the new schema, then every other service."""
        self.migrate()
        for one in self.fleet.services[::2]:
            self.swap_version(one)
        self._wait_ready()

    def query(self, sql: str) -> str:
        """Ask Postgres, and insist while it is away."""
        give_up_at = time.monotonic() + 60
        while True:
            try:
                return self.servers.postgres.execute(sql)
            except DevstackError:
                if time.monotonic() > give_up_at:
                    raise
                time.sleep(0.2)

    def queues(self) -> list[str]:
        """The broker's queues."""
        return [one["name"] for one in self.servers.rabbitmq.queues("/")]

    def messages(self) -> int:
        """How many messages lie in the broker."""
        return sum(one.get("messages", 0) for one in self.servers.rabbitmq.queues("/"))

    def stop(self, one: ServiceProcess) -> None:
        """A stop must end with exit code 0; Python itself, before our first line, is ended by the signal."""
        had_begun = one.has_begun
        code = one.stop(timeout=25)
        # Armed, it may die at a step on its way out.
        has_died = self.is_armed and code == -signal.SIGKILL
        self.deaths += has_died
        self.bad_stops += not has_died and code != 0 and (had_begun or code != -signal.SIGTERM)

    def close(self) -> None:
        """Keep nothing alive any more."""
        self._is_over.set()
        if self._keeper.is_alive():
            self._keeper.join()
        self._http.close()

    def _keep(self) -> None:
        """What a machine's supervisor does: start a process that has died, a little later."""
        while not self._is_over.wait(0.3):
            with self.hands:
                dead = [one for one in self.fleet.services if not one.is_running]
                self.deaths += len(dead)
                for one in dead:
                    say(f"          {one.name} has died: {one.log_tail(1)}")
                    one.start()

    def _wait_ready(self) -> None:
        for one in list(self.fleet.services):
            for tries_left in range(5, -1, -1):
                try:
                    one.wait_ready()
                    break
                except DevstackError:
                    if not tries_left:
                        raise
                    time.sleep(1)

    def come_to_rest(self) -> int:
        """Wait until every job has ended and the broker is empty; returns how many messages are left."""
        self.insist("POST", "/v1/schedules/each-2s/pause")
        give_up_at = time.monotonic() + REST_SECONDS
        waiting = "SELECT count(*) FROM mainspring.jobs WHERE state NOT IN ('succeeded', 'cancelled', 'dead')"
        while int(self.query(waiting)) and time.monotonic() < give_up_at:
            time.sleep(0.5)
        # A consumer to which nothing comes any more begins anew after half a minute.
        give_up_at = time.monotonic() + 45
        while self.messages() and time.monotonic() < give_up_at:
            time.sleep(0.5)
        return self.messages()

    def insist(self, method: str, path: str, **more: Any) -> Any:
        """Ask the api until it answers."""
        give_up_at = time.monotonic() + 120
        while True:
            try:
                answer = self._http.request(method, self.url + path, **more)
                if answer.status_code < 500 and answer.status_code != 409:
                    answer.raise_for_status()
                    return answer.json()
            except httpx.TransportError:
                pass
            if time.monotonic() > give_up_at:
                raise TimeoutError(f"{method} {path}: {self.api.log_tail()}")
            time.sleep(0.1)


@contextmanager
def open_world(chance: float = 0.0, mix: Mix = ONE, old_revision: str = "") -> Iterator[World]:
    """Servers, services, the queue with a limit and the schedule.

    ``chance``: with which each step of the protocol is the last one of its process, or is reported as failed.
    ``old_revision``: the commit of the older release, in a mix with versions; the one before this release if empty.
    """
    say("starting the servers and eight services …")
    with ExitStack() as closing_all:
        servers = closing_all.enter_context(open_servers(mix))
        proxies = [closing_all.enter_context(proxied(url)) for url in servers.environment().values() if mix.network]
        urls = dict(zip(servers.environment(), (url for _, url in proxies), strict=False)) or servers.environment()
        fleet = closing_all.enter_context(open_fleet(urls, servers.folder, "chaos"))
        own_clocks = closing_all.enter_context(closing(Clocks(servers.folder))) if mix.clocks else None
        if chance:
            points = [f"{step}={chance}" for step in sorted(CRASHES | LIES)]
            fleet.set_environment(VARIABLE, ",".join(points))
        old = old_release.unpack(servers.folder, old_revision) if mix.versions else None
        world = World(servers, fleet, own_clocks, old)
        world.proxies = [proxy for proxy, _ in proxies]
        world.is_armed = bool(chance)
        try:
            world.start()
            world.insist("PUT", "/v1/queues/narrow", json={"concurrency": LIMIT})
            if world.is_of_one_release:  # the older one knows no limits by name, and no circuits
                one_each = {"kind": "concurrency", "most": 1, "tasks": ["chaos.limited"], "per": "key"}
                world.insist("PUT", "/v1/limits/one-each", json=one_each)
                rate = {"kind": "rate", "most": RATE, "period_seconds": 1, "tasks": ["chaos.rated"]}
                world.insist("PUT", "/v1/limits/rate", json=rate)
                terms = {"failures": 3, "period_seconds": 20, "hold_seconds": 1}
                world.insist("PUT", "/v1/circuits/chaos-service", json=terms)
            schedule = {"task": "chaos.scheduled", "every_seconds": 2, "overlap": "allow", "misfire": "fire_all"}
            world.insist("PUT", "/v1/schedules/each-2s", json=schedule)
            yield world
        finally:
            world.close()


def say(text: str) -> None:
    """Tell the person who runs it."""
    print(text, file=sys.stderr, flush=True)
