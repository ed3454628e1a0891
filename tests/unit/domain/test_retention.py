"""Retention: what is over at an instant, for whom."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring.domain.errors import InvalidInput
from mainspring.domain.retention import Day, Keeping, QueueRetention, Retention

NOW = datetime(2026, 6, 30, 12, 34, 56, tzinfo=UTC)
HOUR = datetime(2026, 6, 30, 12, tzinfo=UTC)


def day(days_ago: int) -> Day:
    begins = NOW.replace(hour=0, minute=0, second=0) - timedelta(days=days_ago)
    return Day("finished_jobs", "finished_jobs_x", begins, begins + timedelta(days=1))


def cutoffs(keeping: Keeping, of: Day) -> dict[tuple[str, str], datetime]:
    return {(one.queue, one.state.value): one.jobs for one in keeping.of(of)}


@pytest.mark.parametrize("field", ["succeeded_days", "cancelled_days", "results_days", "history_days", "keys_days"])
@pytest.mark.parametrize("value", [0, -1, 0.01, 1e9, float("nan")])
def test_what_is_kept_for_no_time_or_for_ages_is_refused_by_its_field(field: str, value: float) -> None:
    with pytest.raises(InvalidInput) as caught:
        Retention(**{field: value})
    assert caught.value.field == field


@pytest.mark.parametrize("fields", [{"last": 0}, {"last": 10**9}, {"succeeded_days": 0}, {"results_days": -1}])
def test_a_queue_is_held_to_the_same(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as caught:
        QueueRetention(**fields)
    assert caught.value.field == next(iter(fields))


def test_a_day_goes_when_nobody_keeps_any_of_it() -> None:
    assert Keeping(NOW, Retention()).no_job_since == HOUR - timedelta(days=30)
    keeping = Keeping(NOW, Retention(succeeded_days=7), {"audit": QueueRetention(succeeded_days=365)})
    assert keeping.no_job_since == HOUR - timedelta(days=365)
    assert keeping.no_key_since == HOUR - timedelta(days=395)
    assert keeping.no_history_since == HOUR - timedelta(days=90)


def test_what_a_queue_keeps_for_less_long_goes_within_the_day() -> None:
    keeping = Keeping(NOW, Retention(), {"brief": QueueRetention(succeeded_days=1)})
    assert cutoffs(keeping, day(1)) == {
        ("brief", "succeeded"): HOUR - timedelta(days=1),
        ("brief", "cancelled"): day(1).begins,
        ("", "succeeded"): day(1).begins,
        ("", "cancelled"): day(1).begins,
    }
    assert cutoffs(keeping, day(5))["brief", "succeeded"] == day(5).ends
    assert cutoffs(keeping, day(0))["brief", "succeeded"] == day(0).begins


def test_others_go_by_whole_days_from_one_that_a_queue_keeps() -> None:
    keeping = Keeping(NOW, Retention(succeeded_days=7), {"audit": QueueRetention(succeeded_days=365)})
    assert cutoffs(keeping, day(7))["", "succeeded"] == day(7).begins
    assert cutoffs(keeping, day(8))["", "succeeded"] == day(8).ends
    assert cutoffs(keeping, day(8))["audit", "succeeded"] == day(8).begins


def test_the_last_so_many_of_a_queue_and_no_more_than_its_days() -> None:
    own = {"q": QueueRetention(succeeded_days=2, last=100)}
    late = Keeping(NOW, Retention(), own, {"q": NOW - timedelta(hours=1)})
    assert cutoffs(late, day(0))["q", "succeeded"] == NOW - timedelta(hours=1)
    early = Keeping(NOW, Retention(), own, {"q": NOW - timedelta(days=9)})
    assert cutoffs(early, day(2))["q", "succeeded"] == HOUR - timedelta(days=2)
    assert cutoffs(early, day(2))["q", "cancelled"] == day(2).begins


def test_a_time_beyond_the_calendar_keeps_all() -> None:
    assert Keeping(NOW, Retention(succeeded_days=36_500)).no_key_since.year < 1927
