"""Limits: who passes."""

from __future__ import annotations

from uuid import UUID

import pytest

from mainspring.domain.admission import split_by_room
from mainspring.domain.job import JobRef

REFS = [JobRef(UUID(int=number), number) for number in range(5)]


@pytest.mark.parametrize(("most", "held", "room"), [(5, 0, 5), (5, 3, 2), (5, 5, 0), (5, 9, 0), (0, 0, 0), (100, 1, 5)])
def test_as_many_pass_as_there_is_room_for_in_their_order(most, held, room):
    assert split_by_room(REFS, most, held) == (REFS[:room], REFS[room:])
