"""Delays between attempts. A test named by a case holds that case's values: a failure seen in the field."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mainspring.domain.errors import InvalidInput
from mainspring.domain.retry import DEFAULT, RetryPolicy, policy_from, reconnect_delay

DOUBLING = RetryPolicy(max_attempts=1000, base=1, factor=2, cap=60)


@pytest.mark.parametrize(
    ("attempt", "seconds"), [(0, 1), (1, 2), (2, 4), (5, 32), (6, 60), (47, 60), (1024, 60), (10**6, 60)]
)
def test_r01_backoff_never_overflows(attempt, seconds):
    assert DOUBLING.ceiling_before(attempt + 1) == seconds


@pytest.mark.parametrize("base", [1e-308, 5e-324, 1e-300, 1e-6])
def test_r01_a_tiny_base_never_overflows_below_its_cap(base):
    for factor in (2, 2.0, 10.0, 1000.0):
        policy = RetryPolicy(base=base, factor=factor, cap=60)
        assert all(0 <= policy.ceiling_before(retry) <= 60 for retry in range(1, 1200))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("factor", factor) for factor in (0.5, 0, -1, float("nan"), float("inf"), 1001, "2", None, True)],
        *[("base", base) for base in (-1, -0.001, float("nan"), float("inf"), 10**400, "1", None, True)],
        *[("cap", cap) for cap in (-1, float("nan"), float("inf"), 2**40, "1", None)],
        *[("max_attempts", most) for most in (0, -1, 1001, 2.0, float("nan"), "3", None, True)],
    ],
)
def test_r01_a_bad_policy_is_refused_by_the_name_of_its_field(field, value):
    with pytest.raises(InvalidInput) as refusal:
        RetryPolicy(**{field: value})
    assert refusal.value.field == f"retry.{field}"


@pytest.mark.parametrize("delay", [-1, float("nan"), float("inf"), 2**40, "1", None])
def test_r01_a_bad_delay_is_refused_by_its_place(delay):
    with pytest.raises(InvalidInput) as refusal:
        RetryPolicy(delays=(1, delay))
    assert refusal.value.field == "retry.delays.1"


def test_r01_a_base_of_zero_retries_at_once():
    policy = RetryPolicy(base=0, factor=2, cap=60)
    assert {policy.delay_before(retry, 0.999) for retry in (1, 2, 1024, 10**6)} == {timedelta(0)}


def test_a_cap_of_zero_retries_at_once():
    assert RetryPolicy(base=1, cap=0).delay_before(3, 0.5) == timedelta(0)


def test_a_factor_of_one_keeps_the_base():
    policy = RetryPolicy(base=7, factor=1, cap=60)
    assert {policy.ceiling_before(retry) for retry in (1, 2, 10**6)} == {7}


def test_a_base_over_the_cap_is_capped():
    assert RetryPolicy(base=100, factor=1, cap=60).ceiling_before(1) == 60
    assert RetryPolicy(base=100, factor=2, cap=60).ceiling_before(1) == 60


def test_the_default_waits_one_ten_and_sixty_seconds():
    assert DEFAULT.max_attempts == 4
    assert [DEFAULT.ceiling_before(retry) for retry in (1, 2, 3)] == [1, 10, 60]


@pytest.mark.parametrize(("jitter", "seconds"), [(0, 30), (0.5, 45), (0.999, 59.97)])
def test_jitter_draws_between_half_of_the_delay_and_all_of_it(jitter, seconds):
    assert DOUBLING.delay_before(7, jitter) == timedelta(seconds=seconds)


@pytest.mark.parametrize(("retry", "seconds"), [(0, 5), (1, 5), (2, 30), (3, 7), (4, 7), (10**6, 7)])
def test_a_list_of_delays_is_taken_in_order_and_its_last_one_repeats(retry, seconds):
    assert RetryPolicy(delays=(5, 30, 7)).ceiling_before(retry) == seconds


@pytest.mark.parametrize("policy", [DEFAULT, DOUBLING, RetryPolicy(delays=(0, 1.5, 60)), RetryPolicy(max_attempts=1)])
def test_a_stored_policy_is_read_back_as_it_was(policy):
    assert policy_from(policy.as_json()) == policy


@pytest.mark.parametrize("stored", [None, {}])
def test_what_a_stored_policy_leaves_out_takes_its_default(stored):
    assert policy_from(stored) == DEFAULT


@pytest.mark.parametrize(
    ("stored", "field"),
    [
        ({"tries": 3}, "retry.tries"),
        ({"delays": "1,2"}, "retry.delays"),
        ({"delays": {"a": 1}}, "retry.delays"),
        ({"delays": [1, "2"]}, "retry.delays.1"),
        ({"max_attempts": "many"}, "retry.max_attempts"),
    ],
)
def test_a_stored_policy_with_a_fault_names_its_field(stored, field):
    with pytest.raises(InvalidInput) as refusal:
        policy_from(stored)
    assert refusal.value.field == field


def test_reconnecting_waits_double_from_a_tenth_of_a_second_and_are_capped():
    assert [reconnect_delay(failures, 1.0) for failures in (0, 1, 2, 3)] == [0.1, 0.2, 0.4, 0.8]
    assert reconnect_delay(10**6, 1.0) == 5
    assert reconnect_delay(10**6, 0.0, longest=2.0) == 1
