"""Slots: who rests while nothing runs is woken by the first attempt, and not by each."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from mainspring.worker.runner_process import RunnerSpec
from mainspring.worker.slots import Slots

QUIET = SimpleNamespace(log=SimpleNamespace(started=lambda _: None))


def attempt(key):
    return SimpleNamespace(key=key, span=None, job=SimpleNamespace(id=key, task="t", queue="q", traceparent=None))


async def test_the_first_attempt_wakes_who_watches_and_the_next_ones_do_not(monkeypatch):
    monkeypatch.setattr("mainspring.worker.slots.attempt_span.begin", lambda _: None)
    slots = Slots(RunnerSpec(("m",), 2, "", 1.0, 0, 0), runners=1, slots=2, reporter=QUIET, grace=1.0)
    monkeypatch.setattr(slots.pool, "place", lambda _: None)
    resting = asyncio.Event()
    slots.wake_when_busy.append(resting)
    assert slots.is_idle
    slots.start([])
    assert not resting.is_set()
    slots.start([attempt(1)])
    assert resting.is_set()
    assert not slots.is_idle
    resting.clear()
    slots.start([attempt(2)])
    assert not resting.is_set()
