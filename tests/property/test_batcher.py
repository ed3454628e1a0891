"""Group commit under any mixture of good and bad items, arrivals and batch sizes."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.domain.errors import DatabaseUnavailable
from mainspring.runtime.batcher import Batcher

STEADY = settings(derandomize=True, deadline=None, database=None)
MOST_TURNS = 5000
#: For each caller: the turns of the event loop before it hands its item in, and whether the item is bad.
callers = st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=40)


async def turns(count):
    for _ in range(count):
        await asyncio.sleep(0)


async def answers_of(callers, *, most, lanes, duration, error):
    written, left = [], MOST_TURNS

    async def write(items):
        written.append(list(items))
        await turns(duration)
        if any(callers[item][1] for item in items):
            raise error
        return [item * 10 for item in items]

    batcher = Batcher("property", write, most=most, lanes=lanes)

    async def call(item):
        await turns(callers[item][0])
        return await batcher.submit(item)

    calls = [asyncio.ensure_future(call(item)) for item in range(len(callers))]
    while not all(one.done() for one in calls):
        await turns(1)
        assert (left := left - 1), "somebody waits for ever"
    await batcher.drain()
    return [one.exception() or one.result() for one in calls], written


@STEADY
@given(callers, st.integers(1, 10), st.integers(1, 3), st.integers(0, 3))
def test_every_caller_gets_its_own_answer_and_only_bad_items_their_error(callers, most, lanes, duration):
    error = ValueError("bad")
    answers, written = asyncio.run(answers_of(callers, most=most, lanes=lanes, duration=duration, error=error))
    assert answers == [error if is_bad else item * 10 for item, (_, is_bad) in enumerate(callers)]
    assert max(len(batch) for batch in written) <= most
    good = [batch for batch in written if not any(callers[item][1] for item in batch)]
    assert len([item for batch in good for item in batch]) == sum(not is_bad for _, is_bad in callers)


@STEADY
@given(callers, st.integers(1, 10), st.integers(0, 3))
def test_a_server_that_is_away_is_asked_once_for_each_item(callers, most, duration):
    error = DatabaseUnavailable("away")
    answers, written = asyncio.run(answers_of(callers, most=most, lanes=1, duration=duration, error=error))
    assert sorted(item for batch in written for item in batch) == list(range(len(callers)))
    assert all(
        answers[item] == (error if any(callers[other][1] for other in batch) else item * 10)
        for batch in written
        for item in batch
    )
