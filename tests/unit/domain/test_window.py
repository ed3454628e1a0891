"""The window follows how long jobs stay in the broker."""

from __future__ import annotations

from mainspring.domain.window import FIRST, GOAL, LEAST, PAUSE, Window


def fitted(size: float, age: float | None, slots: int = 0) -> float:
    window = Window(size)
    window.fit(age, slots, now=100.0)
    return window.size


def test_it_grows_while_jobs_hurry_through_and_shrinks_when_they_wait():
    assert fitted(200, GOAL / 4) > 200
    assert fitted(200, None) > 200
    assert fitted(200, GOAL) == 200
    assert fitted(200, GOAL * 2) < 200


def test_it_is_never_smaller_than_what_the_workers_can_start_at_once():
    assert fitted(300, 60.0, slots=290) == 290
    assert fitted(LEAST, 60.0) == LEAST
    assert fitted(FIRST, GOAL, slots=800) == 800


def test_one_change_is_seen_before_the_next():
    window = Window(100)
    window.fit(0.0, 0, now=100.0)
    grown = window.size
    window.fit(0.0, 0, now=100.0 + PAUSE / 2)
    assert window.size == grown
    window.fit(0.0, 0, now=100.0 + PAUSE * 2)
    assert window.size > grown


def test_workers_of_any_speed_are_kept_busy_and_an_urgent_job_waits_little():
    for rate in (50.0, 1000.0, 20_000.0):
        window = Window()
        for step in range(200):
            # In the broker stays what the workers haven't taken; a fiftieth of a second is on its way in any case.
            window.fit(max(window.size / rate / 2, 0.02), 10, now=step * PAUSE * 2)
        assert GOAL / 2 <= window.size / rate / 2 <= GOAL * 3 / 2 or window.size <= 10
