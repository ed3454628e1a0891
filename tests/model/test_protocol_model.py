"""The protocol as built keeps its promises in every run of the model; without a mechanism some run breaks one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mainspring.domain.states import TRANSITIONS, Event, State, targets_of

from . import one_job, one_key, one_worker
from .checker import Edge, Exploration
from .mechanisms import Mechanisms, Scope

AS_BUILT = Mechanisms()
#: Nothing is noticed by a timer: what is reached then is reached at once.
WITHOUT_TIMERS = replace(AS_BUILT, outbox=False, reclaim=False, reconcile=False)
QUIET = Scope()
#: How much goes wrong in a run; all of it in one run would be too many states to visit in a check.
TROUBLES = [
    Scope(faults=2),
    Scope(faults=2, is_limited=True),
    Scope(faults=1, cancels=1),
    Scope(faults=1, cancels=1, is_limited=True),
    Scope(faults=1, redrives=1),
    Scope(cancels=1, redrives=1),
]
#: Rows of the product's table that no run here takes: expiry, pause and discard have one statement each and no message
#: of their own, and a key's duplicate needs a second job. What joins a line, or finds no token, is a blocked job from
#: then on, like those of the runs.
LEFT_OUT = {Event.EXPIRE, Event.DUPLICATE, Event.RETURN, Event.DISCARD, Event.JOIN, Event.LIMIT}


def job(parts: Mechanisms, scope: Scope, until: str | None = None) -> Exploration[Any]:
    return Exploration(one_job.machine(parts, scope)).walk(until)


def key(parts: Mechanisms, scope: Scope) -> Exploration[Any]:
    return Exploration(one_key.machine(parts, scope)).walk()


def forbidden(found: Exploration[Any]) -> list[Edge]:
    """The row's changes that the product's table doesn't know."""
    return [edge for edge in found.edges if edge.target not in targets_of(edge.event, edge.source)]


def said(scope: Scope) -> str:
    trouble = {"faults": scope.faults, "cancels": scope.cancels, "redrives": scope.redrives}
    words = [f"{count} {name}" for name, count in trouble.items() if count]
    return ", ".join([*words, *(["limited"] if scope.is_limited else [])])


@pytest.mark.parametrize("scope", TROUBLES, ids=said)
def test_as_built_a_job_is_safe_and_reaches_an_end_from_everywhere(scope: Scope) -> None:
    found = job(AS_BUILT, scope)
    assert found.violations == {}
    assert found.stuck() is None
    assert forbidden(found) == []
    assert len(found.came_by) > 5_000


def test_as_built_a_limit_holds_and_both_jobs_reach_their_end() -> None:
    found = key(AS_BUILT, Scope(faults=2))
    assert found.violations == {}
    assert found.stuck() is None
    assert forbidden(found) == []


@pytest.mark.parametrize("is_limited", [False, True], ids=["unlimited", "limited"])
def test_without_a_fault_no_timer_is_needed(is_limited: bool) -> None:
    found = job(WITHOUT_TIMERS, replace(QUIET, cancels=1, redrives=1, is_limited=is_limited))
    assert found.violations == {}
    assert found.stuck() is None


def test_a_perfect_trust_window_makes_the_fence_unneeded() -> None:
    assert job(replace(AS_BUILT, fence=False), Scope(faults=1)).violations == {}


def test_an_outbox_row_only_saves_the_time_until_the_job_is_missed() -> None:
    assert job(replace(AS_BUILT, outbox=False), Scope(faults=1)).stuck() is None


WITHOUT: list[tuple[str, dict[str, bool], Scope, str]] = [
    ("tickets", {"tickets": False}, Scope(faults=1), one_worker.UNADMITTED),
    ("tickets_and_due_guard", {"tickets": False, "due_guard": False}, Scope(faults=1), one_worker.TOO_EARLY),
    ("fence_and_trust_window", {"fence": False, "trust_window": False}, Scope(faults=1), one_worker.STALE_WRITE),
    ("trust_window", {"trust_window": False}, Scope(faults=1), one_job.TWO_HANDLERS),
    ("claim_id", {"claim_id": False}, Scope(faults=1), one_job.BURNT),
    ("free_hand_back", {"free_hand_back": False}, Scope(faults=1), one_job.BURNT),
    ("cancel_request", {"cancel_request": False}, Scope(cancels=1), one_job.SLOT_FREED),
]


@pytest.mark.parametrize(("without", "scope", "broken"), [row[1:] for row in WITHOUT], ids=[row[0] for row in WITHOUT])
def test_without_it_a_run_breaks_a_property(without: dict[str, bool], scope: Scope, broken: str) -> None:
    way = job(replace(AS_BUILT, **without), scope, broken).violations.get(broken)
    assert way, f"no run breaks: {broken}"
    print(f"\n{broken}:", *way, sep="\n  ")


LOST: list[tuple[str, Mechanisms, Scope, str]] = [
    (
        "publish_first_without_tickets",
        replace(WITHOUT_TIMERS, commit_first=False, tickets=False),
        replace(QUIET, is_ladder_early=False),
        "not claimed: the message is dropped",
    ),
    (
        "early_ladder_without_tickets",
        replace(WITHOUT_TIMERS, tickets=False),
        QUIET,
        "not claimed: the message is dropped",
    ),
    ("reclaim", replace(AS_BUILT, reclaim=False), Scope(faults=1), "the worker dies, its message returns"),
    ("reconcile", replace(AS_BUILT, reconcile=False), Scope(faults=1), "the broker is wiped"),
    ("outbox_and_reconcile", replace(AS_BUILT, outbox=False, reconcile=False), Scope(faults=1), "the scheduler dies"),
]


@pytest.mark.parametrize(("parts", "scope", "last"), [row[1:] for row in LOST], ids=[row[0] for row in LOST])
def test_without_it_a_run_loses_the_job(parts: Mechanisms, scope: Scope, last: str) -> None:
    way = job(parts, scope).stuck()
    assert way, "an end is reachable from every state"
    assert way[-1] == last


@pytest.mark.parametrize("with_predicate", [False, True], ids=["event_promoter", "room_predicate"])
def test_a_limit_that_is_read_and_then_written_is_exceeded(with_predicate: bool) -> None:
    found = key(replace(AS_BUILT, key_lock=False, room_predicate=with_predicate), Scope(faults=1))
    assert list(found.violations) == [one_key.EXCEEDED]


def test_a_promoter_that_dies_leaves_a_blocked_job_for_ever() -> None:
    found = key(replace(AS_BUILT, room_predicate=False), Scope(faults=1))
    assert found.violations == {}
    way = found.stuck()
    assert way
    assert "the promoter dies" in way


def as_built_edges() -> set[Edge]:
    """With less trouble than above, and yet each edge."""
    scopes = [Scope(faults=1), Scope(faults=1, is_limited=True), Scope(cancels=1, redrives=1)]
    return set().union(*(job(AS_BUILT, scope).edges for scope in scopes), key(AS_BUILT, Scope(faults=2)).edges)


def test_every_row_of_the_products_table_is_tried_or_left_out_by_name() -> None:
    """A new row fails here until the model takes it, or says why not."""
    edges = as_built_edges()
    table = {(row.event, row.target) for row in TRANSITIONS if row.event not in LEFT_OUT}
    assert {(edge.event, edge.target) for edge in edges} == table
    assert {edge.source for edge in edges} == set(State) - {State.SUCCEEDED}
