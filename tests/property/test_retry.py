"""Backoff over all policies, and the spread of a herd."""

from __future__ import annotations

import random
from collections import Counter
from datetime import timedelta
from statistics import fmean

from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.domain.retry import LONGEST_SECONDS, RetryPolicy, policy_from, reconnect_delay

STEADY = settings(derandomize=True, deadline=None, database=None)
MINUTE = RetryPolicy(base=60, factor=2, cap=60)
#: A policy's numbers come from JSON: whole ones too.
seconds = st.floats(0, LONGEST_SECONDS) | st.integers(0, int(LONGEST_SECONDS)) | st.sampled_from((5e-324, 1e-308, 1e-6))
factors = st.floats(1, 1000) | st.integers(1, 1000)
exponential = st.builds(RetryPolicy, max_attempts=st.integers(1, 1000), base=seconds, factor=factors, cap=seconds)
listed = st.builds(RetryPolicy, delays=st.lists(seconds, min_size=1, max_size=9).map(tuple))
retries = st.integers(0, 2000) | st.integers(0, 10**9)
jitters = st.floats(0, 1, exclude_max=True)


def test_r02_a_thousand_failures_at_once_come_back_spread_over_half_a_minute():
    draw = random.Random(2)
    delays = [MINUTE.delay_before(1, draw.random()).total_seconds() for _ in range(1000)]
    assert 30 <= min(delays) < 31
    assert 59 < max(delays) < 60
    assert abs(fmean(delays) - 45) <= 0.05 * 45
    assert max(Counter(int(delay) for delay in delays).values()) <= 50


def test_r02_even_draws_fill_every_second_of_the_window_alike():
    delays = [MINUTE.delay_before(1, place / 1000).total_seconds() for place in range(1000)]
    buckets = Counter(int(delay) for delay in delays)
    assert set(buckets) == set(range(30, 60))
    assert max(buckets.values()) - min(buckets.values()) <= 1


@STEADY
@given(exponential, retries, jitters)
def test_r01_any_delay_lies_between_nothing_and_the_cap(policy, retry, jitter):
    assert timedelta(0) <= policy.delay_before(retry, jitter) <= timedelta(seconds=policy.cap)


@STEADY
@given(exponential | listed, retries, jitters)
def test_r02_jitter_keeps_at_least_half_of_the_ceiling(policy, retry, jitter):
    ceiling = timedelta(seconds=policy.ceiling_before(retry))
    half = timedelta(seconds=policy.ceiling_before(retry) / 2)
    assert half <= policy.delay_before(retry, jitter) <= ceiling


@STEADY
@given(exponential)
def test_r01_a_later_retry_never_waits_shorter(policy):
    ceilings = [policy.ceiling_before(retry) for retry in range(1200)]
    assert ceilings == sorted(ceilings)
    assert 0 <= ceilings[0] <= ceilings[-1] <= policy.cap


@STEADY
@given(listed, retries)
def test_a_listed_delay_is_one_of_the_list(policy, retry):
    assert policy.ceiling_before(retry) in policy.delays


@STEADY
@given(exponential | listed)
def test_any_policy_is_read_back_as_it_was_stored(policy):
    assert policy_from(policy.as_json()) == policy


@STEADY
@given(st.integers(0, 10**9), jitters, st.floats(0.1, 60))
def test_reconnecting_never_waits_longer_than_asked(failures, jitter, longest):
    assert 0 < reconnect_delay(failures, jitter, longest) <= longest
