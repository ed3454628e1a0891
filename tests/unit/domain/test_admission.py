"""Limits: who passes, and how many may be on their way."""

from __future__ import annotations

from uuid import UUID

import pytest

from mainspring.domain.admission import credit, split_by_room
from mainspring.domain.job import JobRef

REFS = [JobRef(UUID(int=number), number) for number in range(5)]


@pytest.mark.parametrize(("most", "held", "room"), [(5, 0, 5), (5, 3, 2), (5, 5, 0), (5, 9, 0), (0, 0, 0), (100, 1, 5)])
def test_as_many_pass_as_there_is_room_for_in_their_order(most, held, room):
    assert split_by_room(REFS, most, held) == (REFS[:room], REFS[room:])


@pytest.mark.parametrize(("window", "in_broker", "free"), [(100, 0, 100), (100, 40, 60), (100, 100, 0), (100, 130, 0)])
def test_without_a_limit_the_window_is_what_may_be_released(window, in_broker, free):
    assert credit(window, in_broker, enqueued=in_broker, most=None, held=50) == free


@pytest.mark.parametrize(
    ("most", "held", "enqueued", "free"), [(10, 0, 0, 10), (10, 4, 3, 3), (10, 8, 4, 0), (0, 0, 0, 0), (500, 0, 20, 80)]
)
def test_with_a_limit_no_more_is_released_than_there_is_room_for(most, held, enqueued, free):
    assert credit(100, enqueued, enqueued, most, held) == free
