"""Noticing that the database's clock jumped."""

from __future__ import annotations

import pytest

from mainspring.runtime.clock import StepDetector


def stepped(*looks):
    detector = StepDetector()
    return [detector.has_stepped(database_time, monotonic) for database_time, monotonic in looks]


def test_the_first_look_is_no_step():
    assert stepped((1_000_000.0, 5.0)) == [False]


def test_clocks_that_go_at_one_pace_make_no_step_however_long_nobody_looks():
    assert stepped((1000, 0), (1005, 5), (90_000, 89_000)) == [False, False, False]


@pytest.mark.parametrize(("jump", "is_step"), [(0.9, False), (1.0, False), (1.1, True), (3600, True)])
def test_a_jump_forward_of_more_than_a_second_is_a_step(jump, is_step):
    assert stepped((1000, 0), (1005 + jump, 5)) == [False, is_step]


def test_a_jump_back_ends_no_lease_and_is_none():
    assert stepped((1000, 0), (905, 5)) == [False, False]


def test_after_a_step_the_new_pace_is_the_measure():
    assert stepped((1000, 0), (5005, 5), (5010, 10), (5015, 15)) == [False, True, False, False]


def test_every_step_is_noticed():
    assert stepped((1000, 0), (1100, 5), (1200, 10), (1300, 15)) == [False, True, True, True]


def test_drift_that_stays_small_between_two_looks_is_none():
    assert not any(stepped(*((1000 + 1.05 * seconds, seconds) for seconds in range(0, 100, 5))))
