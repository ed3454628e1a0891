"""The transition table, held against DESIGN.md, section 3, pair by pair."""

from __future__ import annotations

import pytest

from mainspring.domain.states import (
    FINAL,
    HOLDS_SLOT,
    IN_BROKER,
    REDRIVABLE,
    TRANSITIONS,
    WAITING,
    Event,
    State,
    as_markdown,
    sources_of,
    targets_of,
)

ALLOWED = {
    Event.RELEASE: ("scheduled blocked", "enqueued admitted"),
    Event.JOIN: ("scheduled blocked", "blocked"),
    Event.LIMIT: ("enqueued admitted retrying", "blocked"),
    Event.ADMIT: ("enqueued retrying", "admitted"),
    Event.BLOCK: ("enqueued retrying", "blocked"),
    Event.RETURN: ("enqueued admitted retrying", "scheduled"),
    Event.CLAIM: ("enqueued admitted retrying", "running"),
    Event.SUCCEED: ("running", "succeeded"),
    Event.RETRY: ("running", "retrying scheduled"),
    Event.BURY: ("running", "dead"),
    Event.HAND_BACK: ("running", "scheduled"),
    Event.EXPIRE: ("scheduled blocked enqueued admitted retrying", "dead"),
    Event.DUPLICATE: ("enqueued admitted retrying", "succeeded"),
    Event.RESCHEDULE: ("retrying", "scheduled"),
    Event.RECONCILE: ("enqueued admitted retrying", "scheduled"),
    Event.EDIT: ("scheduled blocked enqueued admitted retrying", "scheduled"),
    Event.CANCEL: ("scheduled blocked enqueued admitted retrying", "cancelled"),
    Event.STOP: ("running", "cancelled"),
    Event.REDRIVE: ("dead cancelled", "scheduled"),
    Event.DISCARD: ("dead", "dead"),
}


@pytest.mark.parametrize("event", Event)
def test_an_event_leads_where_the_design_says_and_nowhere_else(event):
    sources, targets = (words.split() for words in ALLOWED[event])
    assert sources_of(event) == set(sources)
    assert {state: targets_of(event, state) for state in State} == {
        state: frozenset(targets if state in sources else ()) for state in State
    }


def test_final_states_are_left_only_by_redrive():
    leaving = {(row.event, state) for row in TRANSITIONS for state in row.sources & FINAL if row.target is not state}
    assert leaving == {(Event.REDRIVE, State.DEAD), (Event.REDRIVE, State.CANCELLED)}


def test_success_is_left_by_nothing():
    assert not any(targets_of(event, State.SUCCEEDED) for event in Event)


def test_only_a_claim_starts_a_handler():
    assert {row.event for row in TRANSITIONS if row.target is State.RUNNING} == {Event.CLAIM}


def reachable(start):
    seen, front = set(), {start}
    while front:
        seen |= front
        front = {row.target for row in TRANSITIONS if row.sources & front} - seen
    return seen


def test_every_state_is_reached_from_a_submit():
    assert reachable(State.SCHEDULED) == set(State)


def test_success_can_be_reached_from_every_state_that_is_not_final():
    assert {state for state in State if State.SUCCEEDED in reachable(state)} >= set(State) - FINAL


def test_a_state_waits_runs_or_is_final():
    assert sorted([*WAITING, State.RUNNING, *FINAL]) == sorted(State)
    assert {state for state in State if state.is_final} == FINAL


def test_the_groups_of_states_are_those_of_the_design():
    assert {State.ENQUEUED, State.ADMITTED, State.RETRYING} == IN_BROKER
    assert {State.ADMITTED, State.RUNNING} == HOLDS_SLOT
    assert sources_of(Event.REDRIVE) == REDRIVABLE
    assert sources_of(Event.CANCEL) == WAITING


def test_the_page_has_an_edge_and_a_row_for_each_transition():
    page = as_markdown()
    for row in TRANSITIONS:
        assert f"| {row.event} | {row.target} |" in page
        assert all(f"    {source} --> {row.target}: {row.event}\n" in page for source in row.sources)
