"""No limit is ever exceeded by what is let through."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.domain.admission import split_by_room
from mainspring.domain.job import JobRef

STEADY = settings(derandomize=True, deadline=None, database=None, max_examples=200)
counts = st.integers(0, 12)
refs = st.integers(0, 15).map(lambda size: [JobRef(UUID(int=number), number) for number in range(size)])


@STEADY
@given(refs, counts, counts)
def test_never_more_pass_than_there_is_room_for_and_nobody_is_lost(waiting, most, held):
    admitted, blocked = split_by_room(waiting, most, held)
    assert admitted + blocked == waiting
    assert not admitted or held + len(admitted) <= most


@STEADY
@given(refs, counts, counts)
def test_nobody_is_blocked_while_there_is_room(waiting, most, held):
    admitted, blocked = split_by_room(waiting, most, held)
    assert not blocked or held + len(admitted) >= most
