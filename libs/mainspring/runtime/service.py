"""The skeleton of a service process: signals, health page, loops; and an orderly end.

A service is composed in its main.py: open what it needs, list its loops, ``run``. The first SIGTERM or
SIGINT begins the stop; later ones change nothing, for a stop is already bounded. A background task that
ends by surprise ends the process with exit code 1: a supervisor restarts it, and a half-living process
would be worse than none.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from typing import Any

import uvloop

from mainspring.domain.errors import MainspringError, Misconfigured
from mainspring.domain.zones import zone_data_version
from mainspring.runtime.collector import spare_collector
from mainspring.runtime.health import Health, listen, server_for
from mainspring.runtime.loop import Loop
from mainspring.runtime.settings import Settings
from mainspring.telemetry import logs, tracing

log = logs.get_logger(__name__)
#: A background task's clean-up takes no longer: two seconds for open requests, or for acknowledgements on their way.
CLEAN_UP_SECONDS = 3.0


class Service:
    """One process: its health, its stop signal, its guarded background tasks."""

    def __init__(self, name: str, settings: Settings) -> None:
        self.name = name
        self.settings = settings
        self.health = Health(name, {"zone_data": zone_data_version()})
        self.health.down("start", "not all is ready yet")
        self.stopping = asyncio.Event()
        self._is_started = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._failure: BaseException | None = None

    def start_loops(self, loops: Iterable[Loop]) -> None:
        """Start each loop as a guarded background task."""
        for loop in loops:
            self.guard(loop.name, loop.run())

    def guard(self, name: str, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run ``work`` in the background; if it raises, the service stops with exit code 1."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        failure: BaseException | None
        self._tasks.discard(task)
        if task.cancelled():
            # Cancelled by the stop; before it, by surprise, and the service would go on without a part of it.
            failure = None if self.stopping.is_set() else MainspringError(f"{task.get_name()} was cancelled")
        else:
            failure = task.exception()
        if failure is None:
            return
        self._failure = self._failure or failure
        is_ours = isinstance(failure, MainspringError)
        log.error(
            "background task ended by surprise",
            task=task.get_name(),
            error=str(failure),
            exc_info=None if is_ours else failure,
        )
        self.stopping.set()

    async def wait_for_stop(self) -> None:
        """Say that the start is over; return at the first SIGTERM or SIGINT, or when a background task failed."""
        self._is_started = True
        self.health.up("start")
        await self.stopping.wait()

    async def cancel_unstarted(self, body: asyncio.Task[None]) -> None:
        """A stop that comes while ``body`` still waits for a server or the schema ends it at once."""
        await self.stopping.wait()
        if not self._is_started:
            body.cancel()

    async def stop_tasks(self) -> None:
        """Cancel the background tasks and wait for their end.

        A cancellation can be lost: before Python 3.12 `asyncio.wait_for`, which the drivers use, keeps one that comes
        as its own wait ends. What still runs when its clean-up should be over is cancelled again.
        """
        self.stopping.set()
        tasks = set(self._tasks)
        while tasks:
            for task in tasks:
                task.cancel()
            _, tasks = await asyncio.wait(tasks, timeout=CLEAN_UP_SECONDS)

    def raise_failure(self) -> None:
        """Raise what ended a background task, if one failed."""
        if self._failure is not None:
            raise self._failure

    def listen_for_signals(self) -> None:
        """SIGTERM and SIGINT begin the stop."""
        running = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            running.add_signal_handler(number, self.stopping.set)

    @contextlib.asynccontextmanager
    async def serving_health(self) -> AsyncIterator[None]:
        """Serve /livez, /readyz and /metrics while inside."""
        listener = listen(self.settings.health_host, self.settings.health_port)
        log.info("health page", host=self.settings.health_host, port=listener.getsockname()[1])
        serving = self.guard("health", server_for(self.health).serve_on(listener))
        try:
            yield
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)


def run(name: str, read: Callable[[], Settings], main: Callable[[Service], Coroutine[Any, Any, None]]) -> int:
    """Run a service to its end and return its exit code: 0 after a stop, 1 after a failure, 2 when misconfigured."""
    logs.configure(name)
    try:
        settings = read()
        logs.configure(name, settings.log_level)
        tracing.configure(name)
        return uvloop.run(_run(name, settings, main))
    except Misconfigured as error:
        log.error("misconfigured", error=str(error))
        return 2
    except (MainspringError, OSError) as error:
        log.error("ended by an error", error=str(error), type=type(error).__name__)
        return 1
    finally:
        tracing.finish()


async def _run(name: str, settings: Settings, main: Callable[[Service], Coroutine[Any, Any, None]]) -> int:
    service = Service(name, settings)
    service.listen_for_signals()
    spare_collector()
    async with service.serving_health():
        body = asyncio.create_task(main(service), name=name)
        watch = asyncio.create_task(service.cancel_unstarted(body))
        await asyncio.wait([body])
        watch.cancel()
        await service.stop_tasks()
        if not body.cancelled():
            body.result()
    service.raise_failure()
    log.info("stopped")
    return 0


def exit_with(code: int) -> None:
    """End the process with its exit code."""
    sys.exit(code)
