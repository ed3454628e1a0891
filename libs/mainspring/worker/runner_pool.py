"""The runners of one worker: kept alive, replaced when they die or are worn out, shared by the attempts.

A runner's death is known at once. It counts for every job that had begun in it, and each of these runs alone on
its next attempt (a private runner, ended afterwards), so that a job that kills its process pays by itself; not
where the runner ended because its leases ran out.
When the supervisor kills a runner because of one handler, the neighbours are handed back uncounted. A runner
whose event loop is blocked gets nothing more until it turns again, and what hasn't begun in it runs elsewhere.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import replace
from typing import Any

from mainspring.boot_clock import boot_time
from mainspring.domain.errors import Misconfigured
from mainspring.domain.retry import reconnect_delay
from mainspring.domain.settlement import AttemptError, Ending
from mainspring.domain.states import Outcome
from mainspring.telemetry import metrics
from mainspring.telemetry.logs import get_logger
from mainspring.worker import runner_process
from mainspring.worker.attempt import Attempt
from mainspring.worker.placement import spread
from mainspring.worker.runner import ending_from
from mainspring.worker.runner_process import TRUST_OVER, RunnerProcess, RunnerSpec

log = get_logger(__name__)
#: A runner that lived longer than this is replaced at once; younger ones with a growing delay.
SETTLED_SECONDS = 5.0

OnEnded = Callable[[Attempt, Ending, bool], None]


class RunnerPool:
    """``count`` runners of ``spec``; ``on_ended(attempt, ending, is_committed)`` hears of each end."""

    def __init__(self, spec: RunnerSpec, count: int, on_ended: OnEnded, on_ready: Callable[[], None]) -> None:
        self.spec = spec
        self._count = count
        self._on_ended = on_ended
        self._on_ready = on_ready
        #: Those that take new attempts, the blocked ones among them; and all whose process lives.
        self._shared: list[RunnerProcess] = []
        self._all: set[RunnerProcess] = set()
        #: Starts of runners that nobody replaces: for one job alone, or beside runners that are all blocked.
        self._apart: set[asyncio.Task[None]] = set()
        self._helpers: set[RunnerProcess] = set()
        self._helpers_coming = 0
        #: Attempts that no runner can begin at the moment.
        self._waiting: list[Attempt] = []
        self._is_closing = False
        self.is_ready = asyncio.Event()
        self.catalogue: list[dict[str, Any]] = []
        #: How many slots a job of a task takes, where that is more than one.
        self.weights: dict[str, int] = {}
        #: How many jobs one call of a batch task's handler takes.
        self._batch_sizes: dict[str, int] = {}

    async def keep(self) -> None:
        """Keep the runners alive until cancelled. Raises Misconfigured when the modules can't be loaded."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._count):
                    group.create_task(self._keep_one())
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None

    def place(self, attempts: Iterable[Attempt]) -> None:
        """Start these attempts on the shared runners; a lone one on a private runner."""
        usable = [one for one in self._shared if not one.is_stalled and not one.is_closed]
        sharing: list[Attempt] = []
        for attempt in attempts:
            if attempt.job.run_alone:
                self._begin(self._run_alone(attempt))
            else:
                (sharing if usable else self._waiting).append(attempt)
        for runner, share in spread(sharing, usable, self._batch_sizes).items():
            runner.run(share)
        if self._waiting and len(self._helpers) + self._helpers_coming < self._count:
            self._helpers_coming += 1
            self._begin(self._help())

    def runners(self) -> list[RunnerProcess]:
        """Every runner that lives."""
        return list(self._all)

    def permit(self) -> None:
        """Renew every runner's permission from its attempts' leases."""
        for runner in self._all:
            runner.permit()

    def stop_handler(self, attempt: Attempt) -> None:
        """Ask one handler to stop; one that waits for a runner ends at once."""
        runner = self.runner_of(attempt)
        if runner is not None:
            runner.cancel(attempt)
        elif attempt in self._waiting:
            self._waiting.remove(attempt)
            self._on_ended(attempt, attempt.stopped_by or Ending(Outcome.HANDED_BACK), False)

    def kill_runner_of(self, attempt: Attempt) -> None:
        """Kill the runner of a handler that didn't stop; the handler's ending is its ``stopped_by``."""
        runner = self.runner_of(attempt)
        if runner is not None:
            metrics.RUNNERS_LOST.labels("killed").inc()
            runner.kill()

    def runner_of(self, attempt: Attempt) -> RunnerProcess | None:
        """Where it runs; None when it waits for a runner, or has ended."""
        return next((one for one in self._all if one.attempts.get(attempt.placement) is attempt), None)

    def set_stalled(self, runner: RunnerProcess, is_stalled: bool) -> None:
        """Begin nothing in a blocked runner, and what hasn't begun there elsewhere; use it again afterwards."""
        runner.is_stalled = is_stalled
        if not is_stalled:
            return
        self._place_elsewhere(runner.take_back())
        _close_if_done(runner)

    def look_after_waiting(self) -> None:
        """Place what waits; and when nothing does, and a runner that is kept turns, let helpers go."""
        self._place_waiting()
        if not self._waiting and any(not one.is_stalled for one in self._shared if one not in self._helpers):
            for helper in self._helpers:
                helper.is_worn_out.set()

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
        worn_out: RunnerProcess | None = None
        while True:
            started = boot_time()
            runner = await self._start()
            is_ready = await _until(runner, runner.is_ready)
            if is_ready:
                self._share(runner)
                if worn_out is not None:
                    self._retire(worn_out)
                    worn_out = None
                if await _until(runner, runner.is_worn_out):
                    worn_out = runner
            cause = "worn out" if worn_out is runner else await asyncio.shield(runner.end)
            if not is_ready and cause == "exited with code 2":
                raise Misconfigured(f"the runner can't load {', '.join(self.spec.modules)}")
            failures = 0 if boot_time() - started > SETTLED_SECONDS else failures + 1
            await asyncio.sleep(reconnect_delay(failures, random.random()) if failures else 0)  # noqa: S311

    async def _run_alone(self, attempt: Attempt) -> None:
        try:
            runner = await self._start()
        except OSError as error:
            log.warning("no process for a job that runs alone", job_id=str(attempt.job.id), error=str(error))
            self._on_ended(attempt, Ending(Outcome.HANDED_BACK, run_alone=True), False)
            return
        runner.ends_when_idle = True
        if self._is_closing or attempt.stopped_by is not None:
            runner.close()
            self._on_ended(attempt, attempt.stopped_by or Ending(Outcome.HANDED_BACK), False)
            return
        runner.reserve(attempt)
        if await _until(runner, runner.is_ready):
            # Until now it loaded the modules: its loop owed nobody a turn.
            runner.excuse()
            runner.run([attempt])

    async def _help(self) -> None:
        """Run what waits while every other runner is blocked."""
        try:
            runner = await self._start()
        except OSError as error:
            log.warning("no process beside the blocked ones", error=str(error))
            return
        finally:
            self._helpers_coming -= 1
        self._helpers.add(runner)
        if await _until(runner, runner.is_ready):
            self._share(runner)
            await _until(runner, runner.is_worn_out)
            self._retire(runner)
        self._helpers.discard(runner)

    def _begin(self, life: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(life)
        self._apart.add(task)
        task.add_done_callback(self._apart.discard)

    async def _start(self) -> RunnerProcess:
        runner = await runner_process.start(self.spec, self._ended)
        self._all.add(runner)
        runner.end = asyncio.create_task(self._see_out(runner), name=f"end of runner {runner.pid}")
        return runner

    async def _see_out(self, runner: RunnerProcess) -> str:
        """Wait for its end, and end whatever was still in it; returns the cause."""
        cause = await runner.wait()
        # What hasn't begun in it runs elsewhere. Not what it was started for alone: that may be why it ended.
        unbegun = [] if self._is_closing or runner.ends_when_idle else runner.take_back()
        runner.close()
        self._all.discard(runner)
        self._unshare(runner)
        attempts = list(runner.attempts.values())
        runner.attempts.clear()
        was_ours = self._is_closing or any(attempt.stopped_by for attempt in attempts)
        if attempts or not runner.ends_when_idle:
            metrics.RUNNERS_LOST.labels("died").inc(not was_ours)
            log.warning("runner ended", pid=runner.pid, cause=cause, jobs=len(attempts), was_killed=was_ours)
        for attempt in attempts:
            ending = attempt.stopped_by or _loss(was_ours, cause, attempt is runner.blocker)
            self._on_ended(attempt, _with_stack(ending, attempt.blocks_at), False)
        self._place_elsewhere(unbegun)
        return cause

    def _share(self, runner: RunnerProcess) -> None:
        self._shared.append(runner)
        self.catalogue = runner.catalogue
        self.weights = {entry["name"]: entry["slots"] for entry in self.catalogue if entry["slots"] > 1}
        self._batch_sizes = {entry["name"]: entry["batch"] for entry in self.catalogue if entry["batch"]}
        self.is_ready.set()
        self._on_ready()
        self._place_waiting()

    def _place_elsewhere(self, unbegun: Sequence[Attempt]) -> None:
        for attempt in unbegun:
            if attempt.stopped_by is not None:
                self._on_ended(attempt, attempt.stopped_by, False)
        self.place(attempt for attempt in unbegun if attempt.stopped_by is None)

    def _place_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        self.place(waiting)

    def _unshare(self, runner: RunnerProcess) -> None:
        if runner in self._shared:
            self._shared.remove(runner)
        if not self._shared:
            self.is_ready.clear()

    def _retire(self, runner: RunnerProcess) -> None:
        """Give it nothing more, and let it end with the last handler that runs in it."""
        self._unshare(runner)
        runner.ends_when_idle = True
        _close_if_done(runner)

    def _ended(self, runner: RunnerProcess, frame: dict[str, Any]) -> None:
        attempt = runner.attempts.pop(frame["key"], None)
        if attempt is None:
            return
        ending, is_committed = ending_from(frame)
        self._on_ended(attempt, ending, is_committed)
        _close_if_done(runner)


def _close_if_done(runner: RunnerProcess) -> None:
    if runner.ends_when_idle and not runner.attempts:
        runner.close()


async def _until(runner: RunnerProcess, event: asyncio.Event) -> bool:
    """Wait for ``event``; False when the runner ended before it."""
    happens = asyncio.ensure_future(event.wait())
    await asyncio.wait({happens, runner.end}, return_when=asyncio.FIRST_COMPLETED)
    happens.cancel()
    return event.is_set() and not runner.end.done()


def _loss(was_ours: bool, cause: str, was_blocker: bool) -> Ending:
    if was_ours:
        return Ending(Outcome.HANDED_BACK, run_alone=was_blocker)
    error = AttemptError("RunnerLost", f"its process {cause}")
    return Ending(Outcome.WORKER_LOST, error=error, run_alone=cause != TRUST_OVER)


def _with_stack(ending: Ending, stack: str | None) -> Ending:
    """Where the handler was when it blocked its runner's loop: all that is known of one that was killed."""
    if stack is None or ending.error is None or ending.error.traceback:
        return ending
    return replace(ending, error=replace(ending.error, traceback=stack))
