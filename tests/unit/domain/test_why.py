"""Why a job isn't running, in words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from mainspring.domain.limits import Blocker, Kind, Limit
from mainspring.domain.states import State
from mainspring.domain.why import Facts, HeldLimit, Serving, explain, span

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
AT_ONCE = Limit("exports", Kind.CONCURRENCY, 5, queues=("reports",))
PER_KEY = Limit("each", Kind.CONCURRENCY, 1, queues=("reports",), per="tenant")
RATE = Limit("charges", Kind.RATE, 10, tasks=("t",), period_seconds=60.0, burst=10, per="customer.id")
IDS = tuple(UUID(int=number) for number in range(1, 4))


def facts(**changes: Any) -> Facts:
    usual: dict[str, Any] = {
        "now": NOW,
        "state": State.SCHEDULED,
        "reason": None,
        "queue": "reports",
        "task": "t",
        "due_at": NOW - timedelta(seconds=1),
        "attempts_used": 0,
        "max_attempts": 5,
        "serving": Serving(1, 1, 10, 4),
    }
    return Facts(**usual | changes)


@pytest.mark.parametrize(
    ("changes", "kind", "message", "estimate"),
    [
        ({"due_at": NOW + timedelta(hours=2, minutes=4)}, "not_due", "due in 2 h 4 min", 7440),
        (
            {"state": State.RETRYING, "attempts_used": 2, "due_at": NOW + timedelta(seconds=12)},
            "retry",
            "attempt 3 of 5 is due in 12 s",
            12,
        ),
        (
            {"reason": "unknown_task", "due_at": NOW + timedelta(seconds=0.5)},
            "returned",
            "it reached a worker that doesn't know its task; it is tried again in 0.5 s",
            0.5,
        ),
        (
            {"reason": "overlap", "schedule": "nightly", "due_at": NOW + timedelta(days=9999)},
            "overlap",
            "kept back until the earlier jobs of schedule nightly have ended",
            None,
        ),
        (
            {"paused": True, "paused_at": NOW, "paused_by": "ops", "note": "a deploy"},
            "queue_paused",
            "queue reports is paused since 2026-05-01 12:00:00Z by ops: a deploy",
            None,
        ),
        (
            {"backs_off_until": NOW + timedelta(seconds=1)},
            "backing_off",
            "queue reports backs off for 1 s: the broker has just returned a message of it",
            1,
        ),
        ({"serving": Serving()}, "no_worker", "no worker that lives serves queue reports", None),
        (
            {"serving": Serving(2, 0, 20, 20)},
            "no_worker",
            "2 workers serve queue reports, and none knows task t",
            None,
        ),
        (
            {"serving": Serving(2, 2, 20, 0)},
            "no_slot",
            "all 20 slots of the workers that serve queue reports are taken",
            None,
        ),
        (
            {"limits": (HeldLimit(Blocker(AT_ONCE, "", 0), 5, IDS),)},
            "concurrency",
            f"limit exports: 5 of 5 slots, held by {IDS[0]}, {IDS[1]}, {IDS[2]}, …",
            None,
        ),
        (
            {"limits": (HeldLimit(Blocker(PER_KEY, "acme", 0), 1, IDS[:1]),)},
            "concurrency",
            f"limit each for tenant = 'acme': 1 of 1 slots, held by {IDS[0]}",
            None,
        ),
        (
            {"limits": (HeldLimit(Blocker(RATE, "42", 0), free_in=3.2),)},
            "rate",
            "rate charges (10 in 1 min) for customer.id = '42': next token in 3.2 s",
            3.2,
        ),
        ({"ahead": 1204, "per_second": 30.1}, "ahead", "1,204 jobs of queue reports are ahead, about 40 s", 40),
        ({"ahead": 1}, "ahead", "one job of it is ahead", None),
        ({"ahead": 100_000}, "ahead", "more than 100,000 jobs of queue reports are ahead", None),
        (
            {"state": State.ENQUEUED, "released_at": NOW - timedelta(seconds=3)},
            "on_its_way",
            "it is on its way to the workers, for 3 s",
            None,
        ),
    ],
)
def test_each_obstacle_is_said_with_its_figure(
    changes: dict[str, Any], kind: str, message: str, estimate: float | None
):
    (found,) = explain(facts(**changes))
    assert (found.kind, found.message) == (kind, message)
    assert found.estimate_seconds == (None if estimate is None else pytest.approx(estimate, rel=0.01))


def test_obstacles_come_in_the_order_in_which_they_have_to_go_away():
    many = facts(
        paused=True,
        serving=Serving(),
        limits=(HeldLimit(Blocker(AT_ONCE, "", 0), 5, IDS), HeldLimit(Blocker(RATE, "42", 0), free_in=3.2)),
        ahead=7,
    )
    assert [one.kind for one in explain(many)] == ["queue_paused", "no_worker", "concurrency", "rate", "ahead"]


def test_a_job_that_runs_says_for_how_long_and_one_that_nothing_stops_says_nothing():
    running = facts(state=State.RUNNING, started_at=NOW - timedelta(seconds=75), worker=IDS[0], paused=True)
    assert [one.message for one in explain(running)] == ["it runs, for 1 min 15 s"]
    assert explain(facts()) == []


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-1, "0 s"),
        (0.04, "0 s"),
        (1, "1 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.6, "1 min"),
        (3599.9, "1 h"),
        (90_000, "1 d 1 h"),
    ],
)
def test_a_length_of_time_is_short(seconds: float, shown: str):
    assert span(seconds) == shown
