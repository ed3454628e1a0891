"""What becomes of a runner whose work was taken back."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from mainspring.worker.runner_pool import RunnerPool
from mainspring.worker.runner_process import RunnerSpec


@pytest.mark.parametrize(("ends_when_idle", "closed"), [(True, 1), (False, 0)])
def test_a_blocked_runner_that_was_for_one_job_alone_ends_with_that_job(ends_when_idle, closed):
    calls = []
    runner = SimpleNamespace(
        attempts={}, ends_when_idle=ends_when_idle, take_back=list, close=lambda: calls.append("close")
    )
    pool = RunnerPool(RunnerSpec(("m",), 1, ""), 1, lambda *_: None, lambda: None)
    pool.set_stalled(runner, True)
    assert len(calls) == closed
