"""Circuits: when they open, how they are probed, and when they close."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mainspring.domain.circuit import (
    LONGEST_HOLD,
    MOST_PROBES,
    Circuit,
    CircuitState,
    CircuitTerms,
    Signal,
    check_circuit,
)
from mainspring.domain.errors import InvalidInput

START = datetime(2026, 1, 1, tzinfo=UTC)
TERMS = CircuitTerms(failures=3, period_seconds=60, share=0.5, hold_seconds=10)
FAILED, PASSED = Signal(True, 0.0), Signal(False, 0.0)


def closed(terms: CircuitTerms = TERMS) -> Circuit:
    return Circuit("c", terms, float(terms.failures), START)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("failures", value) for value in (0, 10_001)),
        *(("share", value) for value in (0.0, 1.0, float("nan"))),
        *(("period_seconds", value) for value in (0.0, 86_401.0, float("nan"))),
        *(("hold_seconds", value) for value in (0.0, 601.0)),
    ],
)
def test_terms_out_of_range_are_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match=field):
        CircuitTerms(**{field: value})


@pytest.mark.parametrize("name", ["", "Payments", "a" * 56, "a b", None])
def test_a_name_is_one_of_our_alphabet_and_leaves_room_for_its_limit(name: Any) -> None:
    with pytest.raises(InvalidInput, match="circuit"):
        check_circuit(name)


def test_it_opens_with_the_failure_after_its_budget() -> None:
    circuit = closed().after([FAILED] * 3, START)
    assert circuit.state(START) is CircuitState.CLOSED
    circuit = circuit.after([FAILED], START)
    assert circuit.state(START) is CircuitState.OPEN
    assert circuit.open_until == at(10)


def test_a_share_of_failures_below_the_threshold_never_opens_it() -> None:
    circuit = closed()
    for _ in range(1000):
        circuit = circuit.after([FAILED, PASSED], START)
    assert circuit.state(START) is CircuitState.CLOSED
    assert closed().after([FAILED, FAILED, PASSED] * 5, START).state(START) is CircuitState.OPEN


def test_failures_far_apart_never_open_it() -> None:
    circuit = closed()
    for n in range(100):
        circuit = circuit.after([FAILED], at(20 * n))
    assert circuit.state(at(2000)) is CircuitState.CLOSED


def test_what_began_before_the_first_probe_changes_nothing() -> None:
    circuit = closed().opened(START)
    assert circuit.after([FAILED, PASSED], at(5)).open_until == at(10)
    late = circuit.after([Signal(True, 15.0), Signal(False, 15.0)], at(20))
    assert (late.open_until, late.probes, late.passed) == (at(10), 1, 0)


def test_a_probe_that_fails_opens_it_for_twice_as_long_up_to_a_bound() -> None:
    circuit, now, holds = closed().opened(START), START, []
    for _ in range(9):
        assert circuit.open_until is not None
        holds.append((circuit.open_until - now).total_seconds())
        now = circuit.open_until
        assert circuit.state(now) is CircuitState.HALF_OPEN
        circuit = circuit.after([FAILED], now)
    assert holds == [10, 20, 40, 80, 160, 320, 600, 600, 600]
    assert timedelta(seconds=600) == LONGEST_HOLD
    assert circuit.opened_at == START


def test_jobs_are_let_go_in_growing_numbers_until_it_is_closed() -> None:
    circuit, probes = closed().opened(START), []
    while circuit.state(at(10)) is not CircuitState.CLOSED:
        probes.append(circuit.probes)
        circuit = circuit.after([PASSED], at(10))
    assert sorted(set(probes)) == [1, 2, 4, 8, 16, 32]
    assert [probes.count(each) for each in sorted(set(probes))] == [1, 2, 4, 8, 16, 32]
    assert circuit.left(at(10)) == 3


def test_few_jobs_close_it_after_a_period() -> None:
    circuit = closed().opened(START).after([PASSED], at(11))
    assert circuit.state(at(60)) is CircuitState.HALF_OPEN
    assert circuit.after([PASSED], at(69)).state(at(69)) is CircuitState.HALF_OPEN
    assert circuit.after([PASSED], at(70)).state(at(70)) is CircuitState.CLOSED


def test_after_some_have_passed_one_failure_is_forgiven() -> None:
    circuit = closed().opened(START).after([PASSED, PASSED, FAILED], at(10))
    assert circuit.state(at(10)) is CircuitState.HALF_OPEN
    assert circuit.after([FAILED, FAILED], at(10)).state(at(10)) is CircuitState.OPEN


@given(
    st.lists(st.tuples(st.booleans(), st.floats(0, 30)), max_size=60),
    st.integers(1, 5),
    st.sampled_from([0.2, 0.5, 0.75]),
)
def test_it_opens_when_some_run_of_attempts_has_used_up_the_budget(
    steps: list[tuple[bool, float]], failures: int, share: float
) -> None:
    """Against the whole history: the budget is what the worst of all runs of attempts up to now leaves of it."""
    terms = CircuitTerms(failures=failures, period_seconds=60, share=share)
    circuit, now = closed(terms), 0.0
    worst = 0.0
    for has_failed, pause in steps:
        now += pause
        worst = max(worst - pause * failures / 60, 0.0)
        opens = has_failed and failures - worst < 1
        if abs(failures - worst - 1) < 1e-6:
            return  # on the edge, where rounding decides
        circuit = circuit.after([Signal(has_failed, 0.0)], at(now))
        assert (circuit.state(at(now)) is CircuitState.OPEN) == opens
        if opens:
            return
        worst = max(worst + (1 if has_failed else -share / (1 - share)), 0.0)


class OneCircuit(RuleBasedStateMachine):
    """Attempts that begin only as the circuit lets them, and end as they like."""

    def __init__(self) -> None:
        super().__init__()
        self.circuit = closed()
        self.now = 0.0
        self.running: list[float] = []
        #: Since it opened last: probes that began, and of those that ended.
        self.succeeded = 0

    @precondition(lambda self: self.may_begin())
    @rule()
    def begin(self) -> None:
        self.running.append(self.now)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), has_failed=st.booleans())
    def end(self, data: st.DataObject, has_failed: bool) -> None:
        began = self.running.pop(data.draw(st.integers(0, len(self.running) - 1)))
        before = self.circuit
        self.circuit = before.after([Signal(has_failed, self.now - began)], at(self.now))
        probed = before.open_until is not None and at(began) >= before.open_until
        if self.circuit.openings > before.openings:
            assert has_failed
            self.succeeded = 0
        elif probed and not has_failed:
            self.succeeded += 1
        if before.open_until is not None and self.circuit.open_until is None:
            is_long_ago = (at(self.now) - before.open_until).total_seconds() >= TERMS.period_seconds
            assert probed
            assert not has_failed
            assert is_long_ago or self.succeeded >= 2 * MOST_PROBES - 1
            self.succeeded = 0

    @rule(seconds=st.sampled_from([0.5, 5.0, 10.0, 60.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    def may_begin(self) -> bool:
        match self.circuit.state(at(self.now)):
            case CircuitState.OPEN:
                return False
            case CircuitState.HALF_OPEN:
                return len(self.running) < self.circuit.probes
        return len(self.running) < 200

    @invariant()
    def no_more_probes_than_have_succeeded_and_one(self) -> None:
        if self.circuit.open_until is not None:
            assert self.circuit.probes <= self.succeeded + 1

    @invariant()
    def the_budget_is_never_more_than_whole(self) -> None:
        assert 0 <= self.circuit.left(at(self.now)) <= TERMS.failures


TestOneCircuit = OneCircuit.TestCase
