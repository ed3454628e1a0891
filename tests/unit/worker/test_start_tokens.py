"""Tokens with which handlers begin: each is taken once, by the runner or by its supervisor."""

from __future__ import annotations

import os
import threading
from types import SimpleNamespace

import pytest

from mainspring.worker import start_tokens
from mainspring.worker.attempt import Attempt
from mainspring.worker.start_tokens import StartGate


@pytest.fixture
def pipe():
    untaken, starts = os.pipe()
    os.set_blocking(untaken, False)
    os.set_blocking(starts, False)
    yield untaken, starts
    os.close(untaken)
    os.close(starts)


def test_what_was_issued_may_begin_in_any_order_and_once(pipe):
    untaken, starts = pipe
    gate = StartGate(untaken)
    start_tokens.issue(starts, [1, 2, 3])
    assert [gate.may_begin(key) for key in (3, 1, 2, 2)] == [True, True, True, False]


def test_what_was_taken_back_never_begins(pipe):
    untaken, starts = pipe
    gate = StartGate(untaken)
    start_tokens.issue(starts, [1, 2, 3])
    assert gate.may_begin(1)
    assert start_tokens.take_back(untaken) == {2, 3}
    assert not gate.may_begin(2)
    start_tokens.issue(starts, [4])
    assert not gate.may_begin(3)
    assert gate.may_begin(4)


def test_as_many_as_a_worker_has_slots_fit(pipe):
    untaken, starts = pipe
    start_tokens.issue(starts, range(start_tokens.MOST))
    assert start_tokens.take_back(untaken) == set(range(start_tokens.MOST))


def test_a_runner_that_ended_is_no_error():
    untaken, starts = os.pipe()
    os.close(untaken)
    start_tokens.issue(starts, [1])
    os.close(starts)


def test_runner_and_supervisor_never_take_the_same(pipe):
    untaken, starts = pipe
    gate = StartGate(untaken)
    begun, taken_back = set(), set()
    start_tokens.issue(starts, range(start_tokens.MOST))

    def take_back():
        while len(begun) < 100:
            pass
        taken_back.update(start_tokens.take_back(untaken))

    supervisor = threading.Thread(target=take_back)
    supervisor.start()
    for key in range(start_tokens.MOST):
        if gate.may_begin(key):
            begun.add(key)
    supervisor.join()
    assert not begun & taken_back
    assert begun | taken_back == set(range(start_tokens.MOST))


def test_an_attempt_that_is_placed_again_has_another_name():
    job = SimpleNamespace()
    one = Attempt(job, None, None, 0.0)
    first = one.place()
    assert one.place() not in (first, one.key)
