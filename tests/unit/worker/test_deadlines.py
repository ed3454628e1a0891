"""Deadlines: told to stop at the timeout, or when the lease can't be trusted; killed when that doesn't help."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace

import pytest

from mainspring.boot_clock import boot_time
from mainspring.domain.states import Outcome
from mainspring.worker.deadlines import LOOK_SECONDS, Deadlines

NEVER = float("inf")


class SlotsOfOne:
    """Stands in for the worker's slots: remembers what it is told."""

    def __init__(self, attempt, hangs_on_another=False):
        self.attempt, self.stopped, self.killed = attempt, [], []
        self.hangs_on_another = lambda _: hangs_on_another

    def attempts(self):
        return [self.attempt] if self.attempt else []

    def stop(self, attempt, ending):
        attempt.stopped_by = ending
        self.stopped.append(ending)

    def kill(self, attempt):
        self.killed.append(attempt)


def attempt(*, running=0.0, trusted_for=10.0, kill_at=NEVER, stopped_by=None):
    now = boot_time()
    return SimpleNamespace(
        job=SimpleNamespace(timeout=timedelta(seconds=5)),
        seconds=lambda: running,
        trusted_until=now + trusted_for,
        kill_at=kill_at,
        stopped_by=stopped_by,
    )


async def after_one_pass(one, **more):
    slots = SlotsOfOne(one, **more)
    await Deadlines(slots).run_once()
    return slots


@pytest.mark.parametrize(
    ("one", "outcome"),
    [
        (attempt(running=5.1), Outcome.TIMED_OUT),
        (attempt(trusted_for=-0.1), Outcome.WORKER_LOST),
    ],
)
async def test_what_overruns_or_is_no_longer_trusted_is_told_to_stop(one, outcome):
    slots = await after_one_pass(one)
    assert [ending.outcome for ending in slots.stopped] == [outcome]
    assert not slots.killed


async def test_what_is_within_its_time_is_left_alone():
    slots = await after_one_pass(attempt(running=4.9))
    assert (slots.stopped, slots.killed) == ([], [])


async def test_what_was_told_to_stop_is_not_told_again_and_is_killed_once():
    one = attempt(running=9, stopped_by=object(), kill_at=boot_time() - 1)
    slots = await after_one_pass(one)
    assert (slots.stopped, slots.killed, one.kill_at) == ([], [one], NEVER)


async def test_what_overruns_because_of_another_is_handed_back():
    slots = await after_one_pass(attempt(running=5.1), hangs_on_another=True)
    assert [ending.outcome for ending in slots.stopped] == [Outcome.HANDED_BACK]


async def test_it_looks_often_while_something_runs_and_rests_while_nothing_does():
    assert (await Deadlines(SlotsOfOne(attempt())).run_once()).wait == LOOK_SECONDS
    assert (await Deadlines(SlotsOfOne(None)).run_once()).wait is None
