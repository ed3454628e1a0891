"""What a worker holds back though it has free slots."""

from __future__ import annotations

import pytest

from mainspring.worker.gates import MEMORY_SECONDS, Gates, available_mib


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_queue_has_no_more_than_its_share() -> None:
    gates = Gates({"reports": 2})
    assert [gates.room_of("reports", running) for running in (0, 1, 2, 3)] == [2, 1, 0, 0]
    assert gates.room_of("others", 1000) > 1000


@pytest.mark.parametrize(("rate", "burst"), [(500.0, 50), (10.0, 1), (0.5, 1)])
def test_no_more_start_in_any_second_than_the_rate_says(rate: float, burst: int) -> None:
    clock = Clock()
    gates = Gates(per_second=rate, clock=clock)
    started: list[float] = []
    for _ in range(4000):
        count = gates.open_for(100)
        gates.started(count)
        started += [clock.now] * count
        clock.now += gates.opens_in() or 0.001
    assert len(started) <= burst + rate * (clock.now - 100)
    assert len(started) >= rate * (clock.now - 100) * 0.95
    for first in range(0, len(started), 7):
        within = sum(at < started[first] + 1 for at in started[first:])
        assert within <= burst + rate + 1


def test_while_memory_is_short_nothing_starts() -> None:
    clock = Clock()
    free = [50.0]
    gates = Gates(min_free_mib=100, free_mib=lambda: free[0], clock=clock)
    assert (gates.open_for(5), gates.opens_in()) == (0, MEMORY_SECONDS)
    free[0] = 150.0
    assert gates.open_for(5) == 0
    clock.now += MEMORY_SECONDS
    assert (gates.open_for(5), gates.opens_in()) == (5, None)


def test_the_memory_of_this_machine_is_a_figure() -> None:
    assert 1 < available_mib() < 100_000_000
