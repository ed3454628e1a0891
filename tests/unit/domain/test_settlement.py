"""What follows an attempt: every outcome, with and without budget, cancel request and hand-backs."""

from __future__ import annotations

from datetime import timedelta
from itertools import product

import pytest

from mainspring.domain.retry import RetryPolicy
from mainspring.domain.settlement import LONGEST_LADDER_DELAY, AttemptError, Ending, Standing, decide
from mainspring.domain.states import Outcome, Reason, State

MINUTE = timedelta(minutes=1)
FAILURES = (Outcome.FAILED, Outcome.TIMED_OUT, Outcome.WORKER_LOST)
PAUSES = (Outcome.HANDED_BACK, Outcome.SNOOZED)
POLICY = RetryPolicy(max_attempts=3, base=10, factor=2, cap=60)
BOOM = AttemptError("ValueError", "boom", "Traceback …")


def standing(used=1, *, hand_backs=0, cancel=False, policy=POLICY):
    return Standing(used, policy, hand_backs, cancel)


@pytest.mark.parametrize("outcome", FAILURES)
def test_a_failure_with_budget_left_is_retried_and_counts(outcome):
    verdict = decide(Ending(outcome, error=BOOM), standing(2), 0.5)
    assert (verdict.state, verdict.outcome, verdict.error) == (State.RETRYING, outcome, BOOM)
    assert (verdict.counts, verdict.reason, verdict.goes_to_ladder) == (True, None, True)
    assert verdict.delay == timedelta(seconds=15)


@pytest.mark.parametrize("outcome", FAILURES)
@pytest.mark.parametrize("used", [3, 100])
def test_a_failure_that_uses_up_the_budget_is_dead(outcome, used):
    verdict = decide(Ending(outcome, error=BOOM), standing(used), 0.5)
    assert (verdict.state, verdict.reason, verdict.outcome) == (State.DEAD, Reason.EXHAUSTED, outcome)
    assert (verdict.error, verdict.goes_to_ladder) == (BOOM, False)


@pytest.mark.parametrize("used", [1, 3, 100])
def test_a_failure_while_its_circuit_is_not_closed_does_not_count(used):
    broken = Standing(used, POLICY, is_circuit_broken=True)
    verdict = decide(Ending(Outcome.FAILED, error=BOOM), broken, 0.5)
    assert (verdict.state, verdict.outcome, verdict.counts, verdict.error) == (
        State.SCHEDULED,
        Outcome.FAILED,
        False,
        BOOM,
    )
    assert verdict.delay >= timedelta(seconds=7)
    assert decide(Ending(Outcome.FAILED, delay=MINUTE), broken, 0.5).delay == MINUTE
    assert decide(Ending(Outcome.FAILED, is_permanent=True), broken, 0.5).state is State.DEAD


@pytest.mark.parametrize("used", [1, 3])
def test_a_permanent_failure_is_dead_whatever_is_left(used):
    verdict = decide(Ending(Outcome.FAILED, error=BOOM, is_permanent=True), standing(used), 0.5)
    assert (verdict.state, verdict.reason, verdict.error) == (State.DEAD, Reason.PERMANENT, BOOM)


@pytest.mark.parametrize("outcome", [*FAILURES, *PAUSES, Outcome.CANCELLED])
def test_a_requested_cancel_comes_before_everything(outcome):
    for used, hand_backs, permanent in product((1, 3), (0, 50), (False, True)):
        ending = Ending(outcome, is_permanent=permanent)
        verdict = decide(ending, standing(used, hand_backs=hand_backs, cancel=True), 0.5)
        assert (verdict.state, verdict.outcome, verdict.reason) == (State.CANCELLED, Outcome.CANCELLED, None)


@pytest.mark.parametrize("outcome", PAUSES)
def test_the_first_nine_pauses_in_a_row_cost_nothing_even_of_the_last_attempt(outcome):
    for used, hand_backs in product((1, 3, 7), range(9)):
        verdict = decide(Ending(outcome), standing(used, hand_backs=hand_backs), 0.5)
        assert (verdict.state, verdict.outcome) == (State.SCHEDULED, outcome)
        assert (verdict.counts, verdict.delay) == (False, timedelta(0))


@pytest.mark.parametrize("outcome", PAUSES)
def test_pauses_count_from_the_tenth_in_a_row(outcome):
    for hand_backs in (9, 10, 100):
        assert decide(Ending(outcome), standing(1, hand_backs=hand_backs), 0.5).counts
        last = decide(Ending(outcome), standing(3, hand_backs=hand_backs), 0.5)
        assert (last.state, last.reason) == (State.DEAD, Reason.EXHAUSTED)


def test_a_snooze_lasts_as_long_as_it_was_asked_for():
    assert decide(Ending(Outcome.SNOOZED, delay=3 * MINUTE), standing(), 0.5).delay == 3 * MINUTE


@pytest.mark.parametrize("asked", [timedelta(seconds=16), MINUTE, timedelta(hours=3)])
def test_r02_an_asked_for_delay_is_never_undercut(asked):
    for jitter in (0.0, 0.5, 0.999):
        assert decide(Ending(Outcome.FAILED, delay=asked), standing(), jitter).delay == asked


def test_an_asked_for_delay_does_not_shorten_the_backoff():
    assert decide(Ending(Outcome.FAILED, delay=timedelta(seconds=1)), standing(), 0.0).delay == timedelta(seconds=5)


@pytest.mark.parametrize(
    ("delay", "state"),
    [
        (15 * MINUTE, State.RETRYING),
        (15 * MINUTE + timedelta(microseconds=1), State.SCHEDULED),
        (timedelta(days=366), State.SCHEDULED),
    ],
)
def test_a_delay_over_fifteen_minutes_waits_in_postgres(delay, state):
    assert LONGEST_LADDER_DELAY == 15 * MINUTE
    verdict = decide(Ending(Outcome.FAILED, delay=delay), standing(), 0.5)
    assert (verdict.state, verdict.counts) == (state, True)
    assert verdict.goes_to_ladder == (state is State.RETRYING)


def test_a_long_backoff_waits_in_postgres_too():
    policy = RetryPolicy(delays=(3600,))
    assert decide(Ending(Outcome.FAILED), standing(policy=policy), 0.5).state is State.SCHEDULED


@pytest.mark.parametrize("outcome", [Outcome.WORKER_LOST, Outcome.HANDED_BACK])
def test_the_wish_to_run_alone_is_kept(outcome):
    assert decide(Ending(outcome, run_alone=True), standing(), 0.5).run_alone


def test_each_retry_waits_longer():
    delays = [decide(Ending(Outcome.FAILED), standing(used), 0.0).delay for used in (1, 2)]
    assert delays == [timedelta(seconds=5), timedelta(seconds=10)]


def test_an_error_is_shown_with_its_three_parts():
    assert BOOM.as_json() == {"type": "ValueError", "message": "boom", "traceback": "Traceback …"}
