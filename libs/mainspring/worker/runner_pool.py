"""The runners of one worker: kept alive, replaced when they die, shared by the attempts.

A runner's death is known at once. It counts for every job that ran in it, and each of these runs alone on
its next attempt (a private runner, ended afterwards), so that a job that kills its process pays by itself.
When the supervisor kills a runner because of one handler, the neighbours are handed back uncounted.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from typing import Any

from mainspring.domain.errors import Misconfigured
from mainspring.domain.retry import reconnect_delay
from mainspring.domain.settlement import AttemptError, Ending
from mainspring.domain.states import Outcome
from mainspring.telemetry import metrics
from mainspring.telemetry.logs import get_logger
from mainspring.worker import runner_process
from mainspring.worker.attempt import Attempt
from mainspring.worker.runner import ending_from
from mainspring.worker.runner_process import RunnerProcess, RunnerSpec
from mainspring.worker.watchdog import boot_time

log = get_logger(__name__)
#: A runner that lived longer than this is replaced at once; younger ones with a growing delay.
SETTLED_SECONDS = 5.0

OnEnded = Callable[[Attempt, Ending, bool], None]


class RunnerPool:
    """``count`` runners of ``spec``; ``on_ended(attempt, ending, is_committed)`` hears of each end."""

    def __init__(self, spec: RunnerSpec, count: int, on_ended: OnEnded, on_ready: Callable[[], None]) -> None:
        self._spec = spec
        self._count = count
        self._on_ended = on_ended
        self._on_ready = on_ready
        self._runners: list[RunnerProcess] = []
        self._private: set[asyncio.Task[None]] = set()
        self._all: set[RunnerProcess] = set()
        self._is_closing = False
        self.is_ready = asyncio.Event()
        self.catalogue: list[dict[str, Any]] = []

    async def keep(self) -> None:
        """Keep the runners alive until cancelled. Raises Misconfigured when the modules can't be loaded."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._count):
                    group.create_task(self._keep_one())
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None

    def place(self, attempts: Iterable[Attempt]) -> None:
        """Start these attempts, each on the runner with the fewest; a lone one on a private runner."""
        shares: dict[int, tuple[RunnerProcess, list[Attempt]]] = {}
        for attempt in attempts:
            if attempt.job.run_alone:
                self._start_private(attempt)
                continue
            runner = min(self._runners, key=lambda one: len(one.attempts) + len(shares.get(one.pid, (one, []))[1]))
            shares.setdefault(runner.pid, (runner, []))[1].append(attempt)
        for runner, share in shares.values():
            runner.run(share)

    def permit(self) -> None:
        """Renew every runner's permission from its attempts' leases."""
        for runner in self._all:
            runner.permit()

    def stop_handler(self, attempt: Attempt) -> None:
        """Ask one handler to stop."""
        for runner in self._all:
            if attempt.key in runner.attempts:
                runner.cancel(attempt)

    def kill_runner_of(self, attempt: Attempt) -> None:
        """Kill the runner of a handler that didn't stop; the handler's ending is its ``stopped_by``."""
        for runner in self._all:
            if attempt.key in runner.attempts:
                metrics.RUNNERS_LOST.labels("killed").inc()
                runner.kill()

    async def close(self) -> None:
        """End all runners and wait until they are gone."""
        self._is_closing = True
        runners = list(self._all)
        for runner in runners:
            runner.close()
        for runner in runners:
            try:
                async with asyncio.timeout(1):
                    await runner.wait()
            except TimeoutError:
                runner.kill()
                await runner.wait()

    async def _keep_one(self) -> None:
        failures = 0
        while True:
            started = boot_time()
            runner = await self._start()
            try:
                is_ready = await self._until_ready(runner)
                if is_ready:
                    self._runners.append(runner)
                    self.catalogue = runner.catalogue
                    self.is_ready.set()
                    self._on_ready()
                cause = await runner.wait()
            finally:
                self._forget(runner)
            if not is_ready and cause == "exited with code 2":
                raise Misconfigured(f"the runner can't load {', '.join(self._spec.modules)}")
            self._lost(runner, cause)
            failures = 0 if boot_time() - started > SETTLED_SECONDS else failures + 1
            await asyncio.sleep(reconnect_delay(failures, random.random()) if failures else 0)  # noqa: S311

    async def _start(self) -> RunnerProcess:
        runner = await runner_process.start(self._spec, self._ended)
        self._all.add(runner)
        return runner

    def _forget(self, runner: RunnerProcess) -> None:
        runner.close()
        self._all.discard(runner)
        if runner in self._runners:
            self._runners.remove(runner)
        if not self._runners:
            self.is_ready.clear()

    @staticmethod
    async def _until_ready(runner: RunnerProcess) -> bool:
        waits = [asyncio.ensure_future(runner.is_ready.wait()), asyncio.ensure_future(runner.wait())]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        return runner.is_ready.is_set()

    def _start_private(self, attempt: Attempt) -> None:
        task = asyncio.create_task(self._run_alone(attempt))
        self._private.add(task)
        task.add_done_callback(self._private.discard)

    async def _run_alone(self, attempt: Attempt) -> None:
        runner = await self._start()
        runner.is_private = True
        try:
            if await self._until_ready(runner):
                runner.run([attempt])
            else:
                runner.attempts[attempt.key] = attempt
            cause = await runner.wait()
        finally:
            self._forget(runner)
        self._lost(runner, cause)

    def _ended(self, runner: RunnerProcess, frame: dict[str, Any]) -> None:
        attempt = runner.attempts.pop(frame["key"], None)
        if attempt is None:
            return
        ending, is_committed = ending_from(frame)
        self._on_ended(attempt, ending, is_committed)
        if runner.is_private:
            runner.close()

    def _lost(self, runner: RunnerProcess, cause: str) -> None:
        """The runner is gone: end whatever was still in it."""
        attempts = list(runner.attempts.values())
        runner.attempts.clear()
        if runner.is_private and not attempts:
            return
        was_ours = self._is_closing or any(attempt.stopped_by for attempt in attempts)
        if not was_ours:
            metrics.RUNNERS_LOST.labels("died").inc()
        log.warning("runner ended", pid=runner.pid, cause=cause, jobs=len(attempts), was_killed=was_ours)
        for attempt in attempts:
            self._on_ended(attempt, attempt.stopped_by or _loss(was_ours, cause), False)


def _loss(was_ours: bool, cause: str) -> Ending:
    if was_ours:
        return Ending(Outcome.HANDED_BACK)
    return Ending(Outcome.WORKER_LOST, error=AttemptError("RunnerLost", f"its process was {cause}"), run_alone=True)
