"""Which runner gets which attempts: the one with the fewest, and those that may be in one batch together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mainspring.worker.attempt import Attempt
from mainspring.worker.runner_process import RunnerProcess


def spread(
    attempts: Iterable[Attempt], runners: Sequence[RunnerProcess], batch_sizes: Mapping[str, int]
) -> dict[RunnerProcess, list[Attempt]]:
    """Shares for ``runners``, at least one. ``batch_sizes``: the jobs that one call of a batch task's handler takes."""
    shares: dict[RunnerProcess, list[Attempt]] = {runner: [] for runner in runners}
    together: dict[str, tuple[RunnerProcess, int]] = {}
    for attempt in attempts:
        task = attempt.job.task
        runner, room = together.get(task, (None, 0))
        if runner is None or not room:
            runner = min(runners, key=lambda one: len(one.attempts) + len(shares[one]))
            room = batch_sizes.get(task, 0)
        if room:
            together[task] = runner, room - 1
        shares[runner].append(attempt)
    return {runner: share for runner, share in shares.items() if share}
