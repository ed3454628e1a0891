"""The skeleton of every loop: when the next pass starts, and what ends it."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from mainspring.domain.errors import DatabaseUnavailable, Misconfigured
from mainspring.runtime import loop as loop_module
from mainspring.runtime.loop import Loop, Pass
from mainspring.telemetry.metrics import REGISTRY

HOUR = 3600.0
NEVER_LONGER = 10


class Script:
    """A ``run_once`` that plays results and errors in turn; ``finished`` is set by the pass after the last."""

    def __init__(self, *results):
        self.results = list(results)
        self.passes = 0
        self.finished = asyncio.Event()
        self.passed = asyncio.Event()

    async def __call__(self):
        self.passes += 1
        self.passed.set()
        if not self.results:
            self.finished.set()
            return Pass()
        result = self.results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result


@contextlib.asynccontextmanager
async def running(script, *, interval=HOUR, name="test"):
    one = Loop(name, script, interval)
    task = asyncio.create_task(one.run())
    try:
        async with asyncio.timeout(NEVER_LONGER):
            yield one
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@pytest.fixture
def backoffs(monkeypatch):
    """The number of failures in a row at each backoff; none of them takes time."""
    asked = []

    def no_delay(failures, _jitter, _longest):
        asked.append(failures)
        return 0.0

    monkeypatch.setattr(loop_module, "reconnect_delay", no_delay)
    return asked


async def test_a_pass_that_asks_for_another_gets_it_at_once():
    script = Script(Pass(again=True), Pass(again=True))
    async with running(script):
        await script.finished.wait()
    assert script.passes == 3


async def test_a_pass_that_names_a_wait_is_followed_within_it():
    script = Script(Pass(wait=0.001))
    async with running(script):
        await script.finished.wait()


async def test_a_wait_is_never_longer_than_the_interval():
    script = Script(Pass(wait=HOUR))
    async with running(script, interval=0.001):
        await script.finished.wait()


async def test_without_a_wish_the_next_pass_follows_after_the_interval():
    script = Script(Pass())
    async with running(script, interval=0.001):
        await script.finished.wait()


async def test_a_wait_of_nothing_is_a_pass_at_once():
    script = Script(Pass(wait=0.0))
    async with running(script):
        await script.finished.wait()


async def test_a_loop_that_waits_stays_quiet_until_it_is_woken():
    script = Script(Pass())
    async with running(script) as one:
        await script.passed.wait()
        for _ in range(5):
            await asyncio.sleep(0)
        assert script.passes == 1
        one.wake.set()
        await script.finished.wait()


async def test_a_wake_up_during_a_pass_is_not_lost():
    second = asyncio.Event()

    async def run_once():
        if one.last_pass_at:
            second.set()
        else:
            one.wake.set()
        return Pass()

    async with running(run_once) as one:
        await second.wait()


async def test_a_pass_that_asks_for_others_for_ever_leaves_the_others_their_turn():
    async def run_once():
        return Pass(again=True)

    async with running(run_once):
        for _ in range(10):
            await asyncio.sleep(0)


async def test_failures_back_off_by_their_number_in_a_row(backoffs):
    script = Script(ValueError(), DatabaseUnavailable("away"), OSError(), Pass(again=True), ValueError())
    async with running(script):
        await script.finished.wait()
    assert backoffs == [1, 2, 3, 1]


async def test_a_failure_is_followed_by_its_delay_and_no_wake_up_shortens_it(monkeypatch):
    monkeypatch.setattr(loop_module, "reconnect_delay", lambda *_: HOUR)
    script = Script(ValueError())
    async with running(script) as one:
        await script.passed.wait()
        one.wake.set()
        for _ in range(5):
            await asyncio.sleep(0)
        assert script.passes == 1


async def test_what_no_retry_mends_ends_the_loop():
    with pytest.raises(Misconfigured, match="wrong"):
        await Loop("test", Script(Pass(again=True), Misconfigured("wrong")), HOUR).run()


async def test_a_cancelled_loop_ends():
    task = asyncio.create_task(Loop("test", script := Script(), HOUR).run())
    await script.finished.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def passes(outcome):
    return REGISTRY.get_sample_value("mainspring_loop_passes_total", {"loop": "counted", "outcome": outcome}) or 0


@pytest.mark.usefixtures("backoffs")
async def test_passes_are_counted_by_outcome():
    before = passes("ok"), passes("failed")
    script = Script(Pass(again=True), ValueError(), Pass(again=True))
    async with running(script, name="counted"):
        await script.finished.wait()
        await asyncio.sleep(0)
    assert (passes("ok") - before[0], passes("failed") - before[1]) == (3, 1)


@pytest.mark.usefixtures("backoffs")
async def test_only_a_pass_that_succeeded_is_remembered_as_the_last():
    script = Script(ValueError())
    async with running(script) as one:
        await script.passed.wait()
        assert one.last_pass_at == 0
        await script.finished.wait()
        await asyncio.sleep(0)
        assert one.last_pass_at > 0


async def test_a_loop_that_can_t_wait_tries_again_sooner(monkeypatch):
    longest = []

    def no_delay(_failures, _jitter, most):
        longest.append(most)
        return 0.0

    monkeypatch.setattr(loop_module, "reconnect_delay", no_delay)
    script = Script(DatabaseUnavailable("away"))
    running = asyncio.create_task(Loop("beats", script, HOUR, longest_retry=0.5).run())
    await script.finished.wait()
    running.cancel()
    assert longest == [0.5]
