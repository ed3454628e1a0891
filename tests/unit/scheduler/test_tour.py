"""Going round: whoever stays has a turn, whoever comes or goes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some

from mainspring_services.scheduler.tour import Tour

NAMES = some.sets(some.text("abc", min_size=1, max_size=3), max_size=12)


def test_a_tour_goes_on_where_it_was():
    tour = Tour()
    assert [tour.next("dbca", 3) for _ in range(3)] == [["a", "b", "c"], ["d", "a", "b"], ["c", "d", "a"]]


def test_more_than_there_are_is_all_of_them_once():
    assert Tour().next("ba", 5) == ["a", "b"]
    assert Tour().next("", 5) == []


@given(stays=NAMES, others=some.lists(NAMES, min_size=40, max_size=40), count=some.integers(1, 5))
def test_what_stays_has_its_turn_within_one_round_of_all(stays, others, count):
    tour, seen = Tour(), set()
    for there in others[: 40 // count + 1]:
        seen |= set(tour.next(stays | there, count))
    assert stays <= seen
