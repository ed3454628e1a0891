"""Looking after the runners: which of them turn, what blocks those that don't, and which have done enough."""

from __future__ import annotations

from mainspring.boot_clock import boot_time
from mainspring.runtime.loop import Pass
from mainspring.telemetry import metrics
from mainspring.telemetry.logs import get_logger
from mainspring.worker.pulse import BEAT_SECONDS, Stall
from mainspring.worker.runner_process import RunnerProcess
from mainspring.worker.slots import Slots

log = get_logger(__name__)
WATCH_SECONDS = BEAT_SECONDS


class RunnerWatch:
    """A loop of the worker."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._pool = slots.pool
        self._looked_at = boot_time()

    async def run_once(self) -> Pass:
        """Look once at every runner."""
        looked_at, self._looked_at = self._looked_at, boot_time()
        is_late = self._looked_at - looked_at > self._pool.spec.stall_after
        for runner in self._pool.runners():
            if is_late:
                # Nobody listened: that this process stood still says nothing of its runners.
                runner.excuse()
            if runner.attempts and not runner.is_closed:
                self._listen(runner)
            if self._is_worn_out(runner):
                runner.is_worn_out.set()
        self._pool.look_after_waiting()
        return Pass(wait=None if self._slots.is_idle else WATCH_SECONDS)

    def _listen(self, runner: RunnerProcess) -> None:
        stalls = runner.listen()
        is_stalled = runner.silent_for() > self._pool.spec.stall_after
        if not is_stalled:
            runner.blocker = None
        if is_stalled != runner.is_stalled:
            self._pool.set_stalled(runner, is_stalled)
        for stall in stalls:
            self._note(runner, stall)

    @staticmethod
    def _note(runner: RunnerProcess, stall: Stall) -> None:
        blocker = runner.attempts.get(stall.key) if stall.key is not None else None
        who = {}
        if blocker is not None:
            runner.blocker, blocker.blocks_at = blocker, stall.stack
            who = {"job_id": str(blocker.job.id), "task": blocker.job.task}
        metrics.LOOP_STALLS.labels(who.get("task", "")).inc()
        log.warning("a handler blocks its runner's event loop", pid=runner.pid, **who, stack=stall.stack)

    def _is_worn_out(self, runner: RunnerProcess) -> bool:
        spec = self._pool.spec
        return 0 < spec.recycle_jobs <= runner.jobs or 0 < spec.recycle_mib <= runner.resident_mib()
