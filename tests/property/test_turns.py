"""Serving lines in turn: nothing beyond its limit, nothing idle, and each key its share."""

from __future__ import annotations

import json
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mainspring.domain.limits import Kind, Limit, Line, Rooms
from mainspring.domain.turns import Turns, WaitingLine, share_out

STEADY = settings(derandomize=True, deadline=None, database=None, max_examples=300)
LIMITS = (
    Limit("each", Kind.CONCURRENCY, 3, queues=("q",), per="k", id=1),
    Limit("all", Kind.CONCURRENCY, 8, queues=("q",), id=2),
)


def a_line(turn: str, key: str, priority: int) -> Line:
    return Line(json.dumps([turn, "", {"k": key}]), "q", "t", priority, priority)


waiting_lines = st.lists(
    st.tuples(st.sampled_from("ABC"), st.sampled_from("xyz"), st.integers(0, 2), st.integers(1, 6)),
    unique_by=lambda one: one[:3],
    max_size=12,
).map(lambda many: [WaitingLine(a_line(*one[:3]), one[3]) for one in sorted(many)])
weights = st.dictionaries(st.sampled_from("ABC"), st.integers(1, 4))


@STEADY
@given(waiting_lines, st.integers(0, 12), weights)
def test_never_more_than_waits_or_has_room_and_nothing_is_idle_while_there_is_credit(waiting, credit, by_weight):
    rooms = Rooms(LIMITS)
    shares = share_out(waiting, rooms, credit, Turns(), by_weight)
    assert sum(shares) <= credit
    by_key: Counter[str] = Counter()
    for (line, there), share in zip(waiting, shares, strict=True):
        assert 0 <= share <= there
        by_key[line.keys()["k"]] += share
        # What could go and doesn't: only when nothing is left to give.
        assert share == there or not rooms.room(line) or sum(shares) == credit
    assert max(by_key.values(), default=0) <= 3
    assert by_key.total() <= 8


@STEADY
@given(waiting_lines, st.integers(0, 12), weights)
def test_a_lower_priority_has_what_the_higher_ones_leave(waiting, credit, by_weight):
    shares = share_out(waiting, Rooms(()), credit, Turns(), by_weight)
    for priority in range(3):
        higher = [one.waiting for one in waiting if one.line.priority <= priority]
        given_out = [share for one, share in zip(waiting, shares, strict=True) if one.line.priority <= priority]
        assert sum(given_out) == min(sum(higher), credit)


class Passes(RuleBasedStateMachine):
    """Three keys that always wait, served pass by pass with whatever credit: each has its weight's share."""

    def __init__(self) -> None:
        super().__init__()
        self.turns = Turns()
        self.weights = {"A": 3, "C": 2}
        self.had: Counter[str] = Counter({"A": 0, "B": 0, "C": 0})

    @rule(credit=st.integers(0, 9))
    def serve(self, credit: int) -> None:
        lines = [a_line(turn, "x", 0) for turn in "ABC"]
        # As the database lists them: those behind the mark first, then the others.
        mark = self.turns.after[0]
        behind = [line for line in lines if line.text > mark]
        ahead = [line for line in lines if line.text <= mark]
        waiting = [WaitingLine(line, 100) for line in behind + ahead]
        shares = share_out(waiting, Rooms(()), credit, self.turns, self.weights)
        assert sum(shares) == credit
        for one, share in zip(waiting, shares, strict=True):
            self.had[json.loads(one.line.text)[0]] += share

    @invariant()
    def each_has_its_share_to_within_a_turn(self) -> None:
        rounds = self.had.total() / 6
        for key, count in self.had.items():
            assert abs(count - rounds * self.weights.get(key, 1)) <= 3


TestPasses = Passes.TestCase
TestPasses.settings = settings(derandomize=True, deadline=None, database=None, max_examples=60)


def test_a_key_that_comes_with_a_backlog_of_others_is_served_in_the_first_pass():
    waiting = [WaitingLine(a_line("A", "x", 5), 100_000), WaitingLine(a_line("B", "y", 5), 10)]
    assert share_out(waiting, Rooms(()), 40, Turns(), {}) == [30, 10]


def test_keys_take_turns_when_a_pass_can_only_serve_one():
    turns, served = Turns(), []
    for _ in range(9):
        lines = sorted(
            (a_line(turn, "x", 5) for turn in "ABC"), key=lambda line: (line.text <= turns.after[5], line.text)
        )
        shares = share_out([WaitingLine(line, 9) for line in lines], Rooms(()), 1, turns, {"B": 2})
        served.append(json.loads(lines[shares.index(1)].text)[0])
    assert "".join(served) == "ABBCABBCA"
