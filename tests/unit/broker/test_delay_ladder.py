"""Delays as ticks and routing keys."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mainspring.broker import delay_ladder
from mainspring.broker.delay_ladder import MOST_TICKS, entry_level, routing_key, ticks_for
from mainspring.domain.settlement import LONGEST_LADDER_DELAY


@pytest.mark.parametrize(
    ("seconds", "ticks"),
    [
        (0, 0),
        (-5, 0),
        (0.1, 1),
        (0.3, 3),
        (0.300001, 4),
        (0.000001, 1),
        (1, 10),
        (60, 600),
        (900, 9000),
        (10**6, 16383),
    ],
)
def test_a_delay_is_rounded_up_to_a_tick_and_kept_within_the_ladder(seconds, ticks):
    assert ticks_for(timedelta(seconds=seconds)) == ticks


def test_every_whole_number_of_ticks_is_exact():
    assert all(ticks_for(ticks * delay_ladder.TICK) == ticks for ticks in range(MOST_TICKS + 1))


def test_the_ladder_holds_every_delay_that_is_sent_to_it():
    assert delay_ladder.LONGEST >= LONGEST_LADDER_DELAY


def test_a_key_spells_the_delay_from_the_highest_level_down_and_then_the_queue():
    assert routing_key(10, "billing") == "0.0.0.0.0.0.0.0.0.0.1.0.1.0.billing"
    assert routing_key(0, "a.b") == "0." * 14 + "a.b"
    assert routing_key(MOST_TICKS, "a") == "1." * 14 + "a"


@pytest.mark.parametrize(("ticks", "level"), [(0, None), (1, 0), (2, 1), (3, 1), (4, 2), (9000, 13), (16383, 13)])
def test_a_message_enters_at_the_highest_level_where_it_must_wait(ticks, level):
    assert entry_level(ticks) == level
