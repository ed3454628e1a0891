"""The worker's slots: which attempts run here, who runs them, and where their endings go."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from mainspring.boot_clock import boot_time
from mainspring.domain.settlement import Ending
from mainspring.domain.states import Outcome
from mainspring.telemetry import metrics
from mainspring.worker import attempt_span
from mainspring.worker.attempt import Attempt
from mainspring.worker.reporter import Reporter
from mainspring.worker.runner_pool import RunnerPool
from mainspring.worker.runner_process import RunnerSpec


class Slots:
    """``slots`` places for attempts, of which a job may take several. They are free again when its handler has ended; a
    lease is kept until settled."""

    def __init__(self, spec: RunnerSpec, *, runners: int, slots: int, reporter: Reporter, grace: float) -> None:
        self._reporter = reporter
        self._grace = grace
        self._attempts: dict[int, Attempt] = {}
        #: Those whose handlers run, each with the slots that it takes.
        self._in_slots: dict[int, int] = {}
        self._taken = 0
        #: The slots that each queue has taken.
        self.in_queue: Counter[str] = Counter()
        self._reports: set[asyncio.Task[None]] = set()
        self._settled_one = asyncio.Event()
        self._log = reporter.log
        #: Set when a handler has ended, and when a runner has come: there may be room now.
        self.slot_freed = asyncio.Event()
        #: Set when attempts begin where there were none: until then, who looks at them again and again may rest.
        self.wake_when_busy: list[asyncio.Event] = []
        self.pool = RunnerPool(spec, runners, self._ended, self.slot_freed.set)
        self.total = slots
        metrics.SLOTS.set(slots)

    @property
    def free(self) -> int:
        """Slots that no handler occupies; none while no runner is ready."""
        return max(self.total - self._taken, 0) if self.pool.is_ready.is_set() else 0

    @property
    def weights(self) -> Mapping[str, int]:
        """How many slots a job takes, by task, where that is more than one."""
        return self.pool.weights

    def weight_of(self, task: str) -> int:
        """The slots that a job of a task takes: never more than there are, so that it runs here too."""
        return min(self.weights.get(task, 1), self.total)

    def attempts(self) -> list[Attempt]:
        """Everything that holds a lease here, in the order of ids so that two batches lock alike."""
        return sorted(self._attempts.values(), key=lambda attempt: attempt.job.id)

    @property
    def is_idle(self) -> bool:
        """True while nothing holds a lease here."""
        return not self._attempts

    def start(self, attempts: Iterable[Attempt]) -> None:
        """Put claimed jobs into slots and run them."""
        batch = list(attempts)
        if batch and self.is_idle:
            for event in self.wake_when_busy:
                event.set()
        for attempt in batch:
            self._attempts[attempt.key] = attempt
            self._occupy(attempt)
            self._log.started(attempt)
            attempt_span.begin(attempt)
        metrics.SLOTS_BUSY.set(self._taken)
        self.pool.place(batch)

    def _occupy(self, attempt: Attempt) -> None:
        weight = self.weight_of(attempt.job.task)
        self._in_slots[attempt.key] = weight
        self._taken += weight
        self.in_queue[attempt.job.queue] += weight

    def _vacate(self, attempt: Attempt) -> None:
        weight = self._in_slots.pop(attempt.key)
        self._taken -= weight
        self.in_queue[attempt.job.queue] -= weight
        metrics.SLOTS_BUSY.set(self._taken)
        self.slot_freed.set()

    def stop(self, attempt: Attempt, ending: Ending) -> None:
        """Ask a handler to stop; however it ends, ``ending`` is what is recorded, unless it has committed."""
        if attempt.stopped_by is None:
            attempt.stopped_by = ending
            attempt.kill_at = boot_time() + self._grace
            self.pool.stop_handler(attempt)

    def kill(self, attempt: Attempt) -> None:
        """Kill the runner of a handler that was asked to stop and didn't."""
        self.pool.kill_runner_of(attempt)

    def hangs_on_another(self, attempt: Attempt) -> bool:
        """True when it can't get on because of another attempt: it hasn't begun, or its loop is blocked by that one."""
        runner = self.pool.runner_of(attempt)
        return runner is None or (runner.is_stalled and runner.blocker not in (None, attempt))

    def permit(self) -> None:
        """Renew the runners' permissions after a beat."""
        self.pool.permit()

    def hand_back(self, attempts: Iterable[Attempt]) -> None:
        """Settle jobs that were claimed and never started, uncounted."""
        for attempt in attempts:
            self._attempts[attempt.key] = attempt
            self._report(attempt, Ending(Outcome.HANDED_BACK), False)

    async def stop_all(self, grace: float) -> None:
        """Give what runs ``grace`` seconds, hand back the rest, settle everything, end the runners."""
        deadline = boot_time() + grace
        while self._in_slots and boot_time() < deadline:
            self.slot_freed.clear()
            await _wait_for(self.slot_freed, deadline - boot_time())
        for attempt in self.attempts():
            if attempt.key in self._in_slots:
                self.stop(attempt, Ending(Outcome.HANDED_BACK))
        while self._in_slots and boot_time() < deadline + self._grace:
            self.slot_freed.clear()
            await _wait_for(self.slot_freed, deadline + self._grace - boot_time())
        await self.pool.close()
        for attempt in self.attempts():
            if attempt.key in self._in_slots:
                self._ended(attempt, attempt.stopped_by or Ending(Outcome.HANDED_BACK), False)
        deadline = boot_time() + self._grace
        while self._attempts and boot_time() < deadline:
            self._settled_one.clear()
            await _wait_for(self._settled_one, deadline - boot_time())

    def _ended(self, attempt: Attempt, ending: Ending, is_committed: bool) -> None:
        if attempt.key not in self._in_slots:
            return
        self._vacate(attempt)
        self._report(attempt, ending if is_committed else _final_word(attempt, ending), is_committed)

    def _report(self, attempt: Attempt, ending: Ending, is_committed: bool) -> None:
        if ending.outcome is Outcome.SUCCEEDED and not is_committed:
            self._reporter.report_success(attempt, ending, self._settled, self._report_slowly)
        else:
            self._report_slowly(attempt, ending, is_committed)

    def _report_slowly(self, attempt: Attempt, ending: Ending, is_committed: bool = False) -> None:
        report = asyncio.create_task(self._reporter.report(attempt, ending, is_committed))
        self._reports.add(report)
        report.add_done_callback(lambda task: self._reported(attempt, task))

    def _reported(self, attempt: Attempt, report: asyncio.Task[None]) -> None:
        self._reports.discard(report)
        self._settled(attempt)
        if not report.cancelled() and report.exception() is not None:
            asyncio.get_running_loop().call_exception_handler(
                {"message": f"settling job {attempt.job.id} failed", "exception": report.exception()}
            )

    def _settled(self, attempt: Attempt) -> None:
        self._attempts.pop(attempt.key, None)
        self._settled_one.set()


def _final_word(attempt: Attempt, ending: Ending) -> Ending:
    """A handler that was told to stop ends as it was told, but a success still counts unless it came too late."""
    told = attempt.stopped_by
    if told is None or (ending.outcome is Outcome.SUCCEEDED and told.outcome is not Outcome.TIMED_OUT):
        return ending
    if told.error is not None and ending.error is not None:
        # Where the handler was when it was stopped.
        return replace(told, error=replace(told.error, traceback=ending.error.traceback))
    return told


async def _wait_for(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(max(seconds, 0)):
            await event.wait()
    except TimeoutError:
        return
