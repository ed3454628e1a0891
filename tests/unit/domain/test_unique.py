"""Unique jobs: what is the same, what counts, what is refused."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mainspring.domain.errors import InvalidInput
from mainspring.domain.states import State
from mainspring.domain.unique import UNENDED, Unique

MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("unique.key", {"key": ""}),
        ("unique.key", {"key": "x" * 256}),
        ("unique.key", {"key": "a\nb"}),
        ("unique.period_seconds", {"period": timedelta(0)}),
        ("unique.period_seconds", {"period": timedelta(days=31)}),
        ("unique.period_seconds", {"states": (State.SUCCEEDED,)}),
    ],
)
def test_what_can_not_be_is_refused_by_its_field(field: str, fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as caught:
        Unique(**fields)
    assert caught.value.field == field


def test_the_same_are_those_of_a_task_with_one_key_or_equal_payloads() -> None:
    keyed, by_payload = Unique("k"), Unique()
    assert keyed.digest("t", '{"a": 1}') == keyed.digest("t", '{"a": 2}')
    assert keyed.digest("t", "{}") != keyed.digest("u", "{}")
    assert by_payload.digest("t", '{"a": 1, "b": 2}') == by_payload.digest("t", '{"b":2,"a":1}')
    assert by_payload.digest("t", '{"a": 1}') != by_payload.digest("t", '{"a": 2}')
    assert Unique('{"a": 1}').digest("t", "{}") != by_payload.digest("t", '{"a": 1}')


def test_until_it_has_ended_or_for_a_period() -> None:
    for state in State:
        assert Unique().counts(state, timedelta(days=99)) == (state in UNENDED)
    period = Unique(period=MINUTE)
    assert [period.counts(State.SUCCEEDED, age) for age in (timedelta(0), MINUTE)] == [True, False]
    assert not period.counts(State.DEAD, timedelta(0))
    assert not period.counts(None, timedelta(0))
    waiting = Unique(states=(State.SCHEDULED,))
    assert [waiting.counts(state, MINUTE) for state in (State.SCHEDULED, State.RUNNING)] == [True, False]
