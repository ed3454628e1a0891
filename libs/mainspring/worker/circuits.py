"""What this worker's attempts tell the circuits of their tasks.

A failure is told before it is settled, since the answer decides whether it counts. Successes are told together, at most
a second later, and at once while a circuit isn't known to be closed: there they are the probes. What a worker that dies
hasn't told is lost; a circuit is an estimate, and no job depends on a single signal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from mainspring.domain.circuit import CircuitState, Signal
from mainspring.domain.errors import DatabaseUnavailable
from mainspring.domain.settlement import Ending
from mainspring.domain.states import Outcome
from mainspring.runtime.batcher import Batcher
from mainspring.runtime.loop import Pass
from mainspring.store import circuits
from mainspring.store.pool import Conn, Database
from mainspring.telemetry import metrics
from mainspring.telemetry.logs import get_logger
from mainspring.worker.attempt import Attempt

log = get_logger(__name__)
#: How often successes are told while the circuit is closed, in seconds.
TELL_SECONDS = 1.0
#: Successes that wait to be told at most: a budget is full long before.
_MOST_UNTOLD = 1000


class _Told(NamedTuple):
    circuit: str
    signals: tuple[Signal, ...]
    error: str | None = None


class Circuits:
    """The circuits of one worker's tasks."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._of_task: dict[str, str] = {}
        self._states: dict[str, CircuitState] = {}
        self._untold: dict[str, list[Signal]] = {}
        self._batcher: Batcher[_Told, CircuitState] = Batcher("circuits", self._tell, most=200)

    def learn(self, catalogue: Iterable[Mapping[str, Any]]) -> None:
        """The tasks that this worker knows."""
        self._of_task = {entry["name"]: entry["circuit"] for entry in catalogue if entry["circuit"]}

    def __bool__(self) -> bool:
        """True when one of its tasks names a circuit."""
        return bool(self._of_task)

    def succeeded(self, attempt: Attempt) -> None:
        """Note that an attempt has succeeded."""
        name = self._of_task.get(attempt.job.task)
        if name is None:
            return
        untold = self._untold.setdefault(name, [])
        if len(untold) < _MOST_UNTOLD:
            untold.append(Signal(False, attempt.seconds()))
        if self._states.get(name, CircuitState.CLOSED) is not CircuitState.CLOSED:
            self._tell_soon(name)

    async def is_broken_by(self, attempt: Attempt, ending: Ending) -> bool:
        """Tell of a failure; True when its circuit isn't closed, and the attempt is not to count."""
        name = self._of_task.get(attempt.job.task)
        if name is None or not _is_of_circuit(ending):
            return False
        error = f"{ending.error.type}: {ending.error.message}" if ending.error else None
        signals = (*self._untold.pop(name, ()), Signal(True, attempt.seconds()))
        try:
            return await self._batcher.submit(_Told(name, signals, error)) is not CircuitState.CLOSED
        except DatabaseUnavailable as failure:
            log.warning("circuit not told of a failure", circuit=name, error=str(failure))
            return False

    async def run_once(self) -> Pass:
        """Tell what has succeeded."""
        told = [self._batcher.submit(_Told(name, tuple(self._untold.pop(name)))) for name in list(self._untold)]
        for one in told:
            await one
        return Pass(done=len(told))

    def _tell_soon(self, name: str) -> None:
        answer = self._batcher.enqueue(_Told(name, tuple(self._untold.pop(name))))
        # Not told now is told by the next: nobody waits for it.
        answer.add_done_callback(lambda future: future.cancelled() or future.exception())

    async def _tell(self, batch: Sequence[_Told]) -> list[CircuitState]:
        by_name: dict[str, list[_Told]] = {}
        for told in batch:
            by_name.setdefault(told.circuit, []).append(told)
        for name, all_told in by_name.items():
            self._learn(name, await self._database.run_in_transaction(lambda connection: _hear(connection, all_told)))  # noqa: B023
        return [self._states[told.circuit] for told in batch]

    def _learn(self, name: str, state: CircuitState) -> None:
        before = self._states.get(name, CircuitState.CLOSED)
        self._states[name] = state
        if state is not before:
            log.warning("circuit changed", circuit=name, state=state.value, before=before.value)
            metrics.CIRCUIT_CHANGES.labels(name, state.value).inc()


async def _hear(connection: Conn, all_told: Sequence[_Told]) -> CircuitState:
    signals = [signal for told in all_told for signal in told.signals]
    error = next((told.error for told in reversed(all_told) if told.error), None)
    return await circuits.hear(connection, all_told[0].circuit, signals, error)


def _is_of_circuit(ending: Ending) -> bool:
    """A permanent failure is the job's own, and so is the end of a worker or a cancel."""
    return ending.outcome in {Outcome.FAILED, Outcome.TIMED_OUT} and not ending.is_permanent
