"""Group commit: when a batch leaves, and who sees whose error."""

from __future__ import annotations

import asyncio

import pytest

from mainspring.domain.errors import DatabaseUnavailable
from mainspring.runtime.batcher import Batcher
from mainspring.telemetry.metrics import REGISTRY

NEVER_LONGER = 10


class Written:
    """A ``write`` that keeps its batches, waits for ``gate``, and raises ``error`` for bad items."""

    def __init__(self, bad=(), error=None):
        self.batches = []
        self.under_way = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.started = asyncio.Event()
        self._bad = set(bad)
        self._error = error or ValueError("bad")

    async def __call__(self, items):
        self.batches.append(list(items))
        self.under_way += 1
        self.started.set()
        await self.gate.wait()
        self.under_way -= 1
        if self._bad & set(items):
            raise self._error
        return [f"answer {item}" for item in items]


@pytest.fixture
async def write():
    return Written()


async def submit_all(batcher, items):
    async with asyncio.timeout(NEVER_LONGER):
        return await asyncio.gather(*(batcher.submit(item) for item in items), return_exceptions=True)


async def test_each_caller_gets_the_answer_to_its_own_item(write):
    assert await submit_all(Batcher("test", write), "abc") == ["answer a", "answer b", "answer c"]


async def test_all_who_come_in_one_turn_share_one_statement(write):
    await submit_all(Batcher("test", write), range(100))
    assert write.batches == [list(range(100))]


async def test_all_who_come_during_a_batch_leave_together_when_it_has_returned(write):
    batcher = Batcher("test", write)
    write.gate.clear()
    answers = [batcher.enqueue("first")]
    await write.started.wait()
    answers += [batcher.enqueue(item) for item in "abc"]
    await asyncio.sleep(0)
    assert write.batches == [["first"]]
    write.gate.set()
    await asyncio.gather(*answers)
    assert write.batches == [["first"], ["a", "b", "c"]]


async def test_a_batch_holds_at_most_so_many_in_the_order_of_arrival(write):
    await submit_all(Batcher("test", write, most=4), range(10))
    assert write.batches == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


async def test_nobody_waits_for_a_timer(write, monkeypatch):
    def refuse(*_args, **_more):
        raise AssertionError("a timer was set")

    monkeypatch.setattr(asyncio.get_running_loop(), "call_at", refuse)
    monkeypatch.setattr(asyncio.get_running_loop(), "call_later", refuse)
    assert await Batcher("test", write).submit("a") == "answer a"


async def test_a_caller_that_comes_again_at_once_is_served(write):
    batcher = Batcher("test", write)
    async with asyncio.timeout(NEVER_LONGER):
        assert [await batcher.submit(item) for item in range(5)] == [f"answer {item}" for item in range(5)]


async def test_a_caller_that_comes_again_at_once_after_its_error_is_served():
    batcher = Batcher("test", Written(bad={"bad"}))
    async with asyncio.timeout(NEVER_LONGER):
        for _ in range(3):
            with pytest.raises(ValueError, match="bad"):
                await batcher.submit("bad")
        assert await batcher.submit("good") == "answer good"


async def test_a_bad_item_is_found_by_halving_and_only_its_caller_sees_the_error():
    error = ValueError("bad")
    write = Written(bad={5}, error=error)
    answers = await submit_all(Batcher("test", write), range(8))
    assert answers == [error if item == 5 else f"answer {item}" for item in range(8)]
    assert [len(batch) for batch in write.batches] == [8, 4, 4, 2, 1, 1, 2]


async def test_two_bad_items_spoil_none_of_the_good():
    write = Written(bad={0, 7})
    answers = await submit_all(Batcher("test", write), range(8))
    assert [type(answer) for answer in answers] == [ValueError, *[str] * 6, ValueError]


async def test_an_absent_server_is_nobodys_fault_and_is_asked_once():
    away = DatabaseUnavailable("away")
    write = Written(bad={5}, error=away)
    assert await submit_all(Batcher("test", write), range(8)) == [away] * 8
    assert write.batches == [list(range(8))]


async def test_a_cancelled_caller_leaves_the_others_theirs(write):
    batcher = Batcher("test", write)
    write.gate.clear()
    callers = [asyncio.create_task(batcher.submit(item)) for item in "abc"]
    await write.started.wait()
    callers[1].cancel()
    await asyncio.sleep(0)
    write.gate.set()
    answers = await asyncio.gather(*callers, return_exceptions=True)
    assert answers[::2] == ["answer a", "answer c"]
    assert isinstance(answers[1], asyncio.CancelledError)


async def test_a_cancelled_caller_of_a_failed_batch_harms_nobody():
    write = Written(bad={"b"})
    write.gate.clear()
    batcher = Batcher("test", write)
    callers = [asyncio.create_task(batcher.submit(item)) for item in "abc"]
    await write.started.wait()
    callers[1].cancel()
    write.gate.set()
    answers = await asyncio.gather(*callers, return_exceptions=True)
    assert answers[::2] == ["answer a", "answer c"]


async def test_a_cancelled_batch_cancels_its_callers_and_the_next_one_is_served(write):
    batcher = Batcher("test", write)
    write.gate.clear()
    before = asyncio.all_tasks()
    answer = batcher.enqueue("a")
    (lane,) = asyncio.all_tasks() - before
    await write.started.wait()
    lane.cancel()
    with pytest.raises(asyncio.CancelledError):
        await answer
    write.gate.set()
    async with asyncio.timeout(NEVER_LONGER):
        assert await batcher.submit("b") == "answer b"


async def test_one_lane_has_one_batch_under_way(write):
    write.gate.clear()
    batcher = Batcher("test", write, most=1)
    answers = [batcher.enqueue(item) for item in "abc"]
    await write.started.wait()
    assert write.under_way == 1
    write.gate.set()
    await asyncio.gather(*answers)


async def test_so_many_lanes_have_so_many_batches_under_way(write):
    write.gate.clear()
    batcher = Batcher("test", write, most=1, lanes=2)
    answers = [batcher.enqueue(item) for item in "abcd"]
    await write.started.wait()
    await asyncio.sleep(0)
    assert write.under_way == 2
    write.gate.set()
    assert await asyncio.gather(*answers) == [f"answer {item}" for item in "abcd"]


async def test_draining_returns_when_everything_is_answered(write):
    batcher = Batcher("test", write, most=2)
    write.gate.clear()
    answers = [batcher.enqueue(item) for item in "abc"]
    draining = asyncio.create_task(batcher.drain())
    await write.started.wait()
    assert not draining.done()
    write.gate.set()
    await draining
    assert all(answer.done() for answer in answers)


async def test_draining_an_idle_batcher_returns_at_once(write):
    await Batcher("test", write).drain()


async def test_the_size_of_each_batch_is_counted(write):
    batcher = Batcher("counted", write)
    before = REGISTRY.get_sample_value("mainspring_batch_size_sum", {"batcher": "counted"})
    await submit_all(batcher, range(7))
    assert REGISTRY.get_sample_value("mainspring_batch_size_sum", {"batcher": "counted"}) == before + 7
