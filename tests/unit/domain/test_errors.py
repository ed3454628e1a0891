"""The error tree, and what handlers raise."""

from __future__ import annotations

import math
import re
from datetime import timedelta

import pytest

from mainspring.domain import errors
from mainspring.domain.errors import LONGEST_DELAY, InvalidInput, RetryAfter, Snooze, UnreadableMessage, as_delay


@pytest.mark.parametrize(
    ("given", "delay"),
    [
        (5, timedelta(seconds=5)),
        (0.25, timedelta(milliseconds=250)),
        (timedelta(minutes=3), timedelta(minutes=3)),
        (0, timedelta(0)),
        (-1, timedelta(0)),
        (timedelta(days=-1), timedelta(0)),
        (math.nan, timedelta(0)),
        (-math.inf, timedelta(0)),
        (-(10**400), timedelta(0)),
        ("soon", timedelta(0)),
        (None, timedelta(0)),
        (math.inf, LONGEST_DELAY),
        (2**47, LONGEST_DELAY),
        (10**400, LONGEST_DELAY),
        (timedelta.max, LONGEST_DELAY),
    ],
)
def test_r01_any_delay_is_clamped_and_nothing_raises(given, delay):
    assert as_delay(given) == delay


@pytest.mark.parametrize("signal", [RetryAfter, Snooze])
def test_a_signal_carries_its_delay_and_its_words(signal):
    assert signal(90).delay == timedelta(seconds=90)
    assert "90" in str(signal(90))
    assert str(signal(90, "the bank is closed")) == "the bank is closed"


def test_a_refusal_names_its_field():
    refusal = InvalidInput("payload.cents", "must be positive")
    assert (refusal.field, refusal.message) == ("payload.cents", "must be positive")
    assert str(refusal) == "payload.cents: must be positive"


def test_an_unreadable_message_has_a_reason_apart_from_its_detail():
    assert str(UnreadableMessage("empty")) == "empty"
    fault = UnreadableMessage("bad_job_id", "'x'")
    assert (fault.reason, str(fault)) == ("bad_job_id", "bad_job_id: 'x'")


def test_the_tree_that_is_drawn_is_the_tree_that_is():
    drawn, path = {}, {}
    for line in errors.__doc__.splitlines():
        if match := re.match(r"([│ ├└─]*)([A-Z]\w+)(?:  |$)", line):
            depth = len(match[1]) // 4
            path[depth] = match[2]
            drawn[match[2]] = path[depth - 1] if depth else "Exception"
    classes = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]
    assert {one.__name__: one.__base__.__name__ for one in classes} == drawn
