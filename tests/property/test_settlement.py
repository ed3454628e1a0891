"""Verdicts over every ending and every standing."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.domain.retry import RetryPolicy
from mainspring.domain.settlement import LONGEST_LADDER_DELAY, Ending, Standing, decide
from mainspring.domain.states import Event, Outcome, State, targets_of

STEADY = settings(derandomize=True, deadline=None, database=None)
policies = st.builds(
    RetryPolicy,
    max_attempts=st.integers(1, 20),
    base=st.floats(0, 2000),
    factor=st.floats(1, 20),
    cap=st.floats(0, 4000),
)
endings = st.builds(
    Ending,
    st.sampled_from(sorted(set(Outcome) - {Outcome.SUCCEEDED})),
    is_permanent=st.booleans(),
    delay=st.none() | st.timedeltas(timedelta(0), timedelta(days=366)),
    run_alone=st.booleans(),
)
standings = st.builds(Standing, st.integers(1, 25), policies, st.integers(0, 30), st.booleans())
jitters = st.floats(0, 1, exclude_max=True)
ENDS_AN_ATTEMPT = (Event.RETRY, Event.BURY, Event.HAND_BACK, Event.STOP)


@STEADY
@given(endings, standings, jitters)
def test_a_verdict_is_a_transition_of_the_table(ending, standing, jitter):
    state = decide(ending, standing, jitter).state
    assert any(state in targets_of(event, State.RUNNING) for event in ENDS_AN_ATTEMPT)


@STEADY
@given(endings, standings, jitters)
def test_only_the_dead_have_a_reason_and_only_the_living_a_delay(ending, standing, jitter):
    verdict = decide(ending, standing, jitter)
    assert (verdict.reason is not None) == (verdict.state is State.DEAD)
    assert verdict.delay == timedelta(0) or not verdict.state.is_final


@STEADY
@given(endings, standings, jitters)
def test_a_job_never_runs_on_beyond_its_budget(ending, standing, jitter):
    verdict = decide(ending, standing, jitter)
    assert verdict.state.is_final or not verdict.counts or standing.attempts_used < standing.policy.max_attempts


@STEADY
@given(endings, standings, jitters)
def test_r02_an_asked_for_delay_is_never_undercut(ending, standing, jitter):
    verdict = decide(ending, standing, jitter)
    assert verdict.state.is_final or verdict.delay >= (ending.delay or timedelta(0))


@STEADY
@given(endings, standings, jitters)
def test_the_ladder_never_gets_what_it_cannot_hold(ending, standing, jitter):
    verdict = decide(ending, standing, jitter)
    assert not verdict.goes_to_ladder or verdict.delay <= LONGEST_LADDER_DELAY


@STEADY
@given(endings, standings, jitters)
def test_a_requested_cancel_always_cancels(ending, standing, jitter):
    verdict = decide(ending, standing, jitter)
    assert verdict.state is State.CANCELLED or not standing.cancel_requested


@STEADY
@given(endings, standings, jitters)
def test_only_a_pause_costs_nothing(ending, standing, jitter):
    verdict = decide(ending, standing, jitter)
    assert verdict.counts or verdict.outcome in (Outcome.HANDED_BACK, Outcome.SNOOZED)
