"""Bulk operations: what can be asked for, and how one goes on."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import pytest

from mainspring.domain.bulk import MOST_AT_ONCE, Action, BulkFilter, BulkRequest, Canary, Progress, next_move
from mainspring.domain.errors import InvalidInput
from mainspring.domain.states import State

OF_TASK = BulkFilter(task="t")


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("filter", {"filter": BulkFilter()}),
        ("filter", {"is_for_all": True}),
        ("filter.reason", {"filter": BulkFilter(reason="exhausted")}),
        ("filter.fingerprint", {"filter": BulkFilter(fingerprint="x")}),
        ("filter.tag", {"action": Action.REDRIVE, "filter": BulkFilter(tag="x")}),
        ("filter.schedule", {"action": Action.DISCARD, "filter": BulkFilter(schedule="x")}),
        ("filter.state", {"action": Action.REDRIVE, "filter": BulkFilter(states=(State.DEAD,))}),
        ("filter.state", {"filter": BulkFilter(states=(State.SUCCEEDED,))}),
        ("filter.state", {"action": Action.RETRY, "filter": BulkFilter(states=(State.RETRYING, State.RUNNING))}),
        ("filter.state", {"action": Action.EDIT, "priority": 1, "filter": BulkFilter(states=(State.RUNNING,))}),
        ("filter.queue", {"filter": BulkFilter(queue="No Spaces")}),
        ("filter.since", {"filter": BulkFilter(since=datetime(2026, 1, 1))}),  # noqa: DTZ001
        ("priority", {"priority": 1}),
        ("priority", {"action": Action.EDIT}),
        ("priority", {"action": Action.EDIT, "priority": 10}),
        ("per_second", {"per_second": 0.0}),
        ("per_second", {"per_second": float("nan")}),
        ("per_second", {"per_second": 1e6}),
        ("canary", {"canary": Canary()}),
    ],
)
def test_what_can_not_be_done_is_refused_by_its_field(field: str, fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as caught:
        BulkRequest(**{"action": Action.CANCEL, "filter": OF_TASK} | fields)
    assert caught.value.field == field


@pytest.mark.parametrize("steps", [(), (0.1, 0.1), (0.2, 0.1), (0.0, 0.1), (0.5, 1.0), (float("nan"),), (0.01,) * 11])
def test_the_steps_of_a_canary_rise_between_nothing_and_all(steps: tuple[float, ...]) -> None:
    with pytest.raises(InvalidInput, match="steps"):
        Canary(steps)


@pytest.mark.parametrize("share", [-0.1, 1.0, float("nan")])
def test_a_canary_bears_some_failures_and_not_all(share: float) -> None:
    with pytest.raises(InvalidInput, match="most_failures"):
        Canary(most_failures=share)


def test_without_a_canary_all_are_taken_as_fast_as_the_rate_says() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    request = BulkRequest(Action.CANCEL, BulkFilter(queue="q", since=at))
    assert next_move(request, Progress(10)).take == MOST_AT_ONCE
    rates = {0.1: 1, 1.0: 1, 40.0: 10, 10_000.0: MOST_AT_ONCE}
    for rate, take in rates.items():
        assert next_move(BulkRequest(Action.CANCEL, OF_TASK, per_second=rate), Progress(10)).take == take


def canary(*steps: float, most_failures: float = 0.1, **fields: Any) -> BulkRequest:
    return BulkRequest(Action.REDRIVE, OF_TASK, canary=Canary(steps or (0.01, 0.1), most_failures), **fields)


def test_a_canary_waits_at_each_step_for_all_that_it_took() -> None:
    request = canary()
    assert next_move(request, Progress(1000)).take == 10
    assert next_move(request, Progress(1000, taken=4, pending=4)).take == 6
    assert next_move(request, Progress(1000, taken=10, succeeded=9, pending=1)).take == 0
    move = next_move(request, Progress(1000, taken=10, succeeded=9, failed=1))
    assert (move.take, move.step, move.stops) == (90, 1, None)
    assert next_move(request, Progress(1000, taken=100, step=1, succeeded=90, failed=10)).take == MOST_AT_ONCE


def test_a_canary_stops_when_more_fail_than_it_bears() -> None:
    stopped = next_move(canary(), Progress(1000, taken=10, succeeded=8, failed=2))
    assert stopped.take == 0
    assert stopped.stops == "2 of 10 failed again: 20%, and 10% may"
    late = next_move(canary(), Progress(1000, taken=700, step=2, succeeded=100, failed=50, pending=550))
    assert late.stops is not None
    few = next_move(canary(), Progress(1000, taken=10, failed=3, pending=7))
    assert (few.take, few.stops) == (0, None)
    cancelled = next_move(canary(), Progress(1000, taken=10, failed=1))
    assert cancelled.stops is not None


def test_one_dead_job_is_a_canary_of_its_own() -> None:
    assert next_move(canary(), Progress(1)).take == 1
    assert next_move(canary(), Progress(1, taken=1, pending=1)).take == 0
    assert next_move(canary(), Progress(1, taken=1, succeeded=1)).step == 2


@pytest.mark.parametrize("seed", range(30))
def test_whatever_the_outcomes_a_canary_ends_and_never_runs_ahead_of_what_it_knows(seed: int) -> None:
    chance = random.Random(seed)
    request = canary(0.05, 0.3, most_failures=0.2, per_second=chance.choice([None, 20.0]))
    matched, bad = chance.randint(1, 3000), chance.choice([0.0, 0.1, 0.5])
    now = Progress(matched)
    for _ in range(20_000):
        move = next_move(request, now)
        if move.stops or now.taken == matched:
            break
        assert move.step >= now.step
        if move.step < 2:
            assert now.taken + move.take <= -(-matched * (0.05, 0.3)[move.step] // 1)
        if move.step > now.step:
            assert now.pending == 0
        take = min(move.take, matched - now.taken)
        judged = chance.randint(0, now.pending)
        failed = sum(chance.random() < bad for _ in range(judged))
        now = Progress(
            matched,
            now.taken + take,
            move.step,
            now.succeeded + judged - failed,
            now.failed + failed,
            now.pending + take - judged,
        )
    else:
        raise AssertionError("it never ends")
    if bad == 0.0:
        assert now.taken == matched
