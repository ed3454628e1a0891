"""Limits: what is refused, who is under them, what they have left."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mainspring.domain.errors import InvalidInput
from mainspring.domain.limits import InHand, Kind, Limit, Line, RateRoom, Rooms, Strategy


def line(queue: str = "q", task: str = "t", **keys: str) -> Line:
    return Line(json.dumps(["", "", keys]), queue, task)


def concurrency(most: int, **fields: Any) -> Limit:
    return Limit("c", Kind.CONCURRENCY, most, **{"queues": ("q",), "id": 1} | fields)


def rate(most: int, **fields: Any) -> Limit:
    return Limit("r", Kind.RATE, most, **{"queues": ("q",), "id": 2, "period_seconds": 1.0, "burst": most} | fields)


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("name", {"name": "No Spaces"}),
        ("queues", {"queues": ()}),
        ("queues.1", {"queues": ("q", "")}),
        ("queues", {"queues": ("q", "q")}),
        ("tasks.0", {"tasks": ("UPPER",)}),
        ("queues", {"queues": tuple(f"q{n}" for n in range(101))}),
        ("most", {"most": 0}),
        ("most", {"most": 1_000_001}),
        ("per", {"per": ""}),
        ("per", {"per": "a..b"}),
        ("per", {"per": "a.b c"}),
        ("per", {"per": ".".join("abcdefghi")}),
        ("per", {"per": "x" * 65}),
        ("kind", {"burst": 3}),
        ("kind", {"cost": "units"}),
        ("period_seconds", {"kind": Kind.RATE, "burst": 1}),
        ("period_seconds", {"kind": Kind.RATE, "burst": 1, "period_seconds": 0.0}),
        ("period_seconds", {"kind": Kind.RATE, "burst": 1, "period_seconds": float("nan")}),
        ("period_seconds", {"kind": Kind.RATE, "burst": 1, "period_seconds": 1e9}),
        ("burst", {"kind": Kind.RATE, "period_seconds": 1.0}),
        ("burst", {"kind": Kind.RATE, "period_seconds": 1.0, "burst": 0}),
        ("ordered", {"ordered": True, "most": 2}),
        ("ordered", {"ordered": True, "strategy": Strategy.CANCEL_NEW}),
        ("ordered", {"kind": Kind.RATE, "period_seconds": 1.0, "burst": 1, "ordered": True}),
        ("strategy", {"kind": Kind.RATE, "period_seconds": 1.0, "burst": 1, "strategy": Strategy.CANCEL_NEW}),
        ("cost", {"kind": Kind.RATE, "period_seconds": 1.0, "burst": 1, "cost": " "}),
    ],
)
def test_what_no_limit_can_be_is_refused_by_its_field(field: str, fields: dict[str, Any]):
    with pytest.raises(InvalidInput) as caught:
        Limit(**{"name": "c", "kind": Kind.CONCURRENCY, "most": 1, "queues": ("q",)} | fields)
    assert caught.value.field == field


def test_a_limit_is_on_the_jobs_of_its_queues_and_of_its_tasks():
    one = concurrency(1, queues=("a", "b"), tasks=("t",))
    assert [one.applies_to(*pair) for pair in (("a", "x"), ("b", "x"), ("c", "t"), ("c", "x"))] == [1, 1, 1, 0]


def test_what_is_in_hand_is_taken_away_and_never_gives_less_than_nothing():
    rooms = Rooms((concurrency(5),))
    in_hand = [InHand("q", "t", state, line().text, 2) for state in ("enqueued", "admitted", "running")]
    rooms.count(in_hand, released_too=False)
    assert rooms.room(line()) == 1
    rooms.count(in_hand, released_too=True)
    assert rooms.room(line()) == 0
    assert [(one.limit.name, one.key, one.left) for one in rooms.blockers(line())] == [("c", "", 0)]


def test_each_key_has_room_of_its_own_and_a_job_without_the_key_shares_one():
    rooms = Rooms((concurrency(1, per="customer"),))
    rooms.take(line(customer="a"), 1)
    assert [rooms.room(line(**keys)) for keys in ({"customer": "a"}, {"customer": "b"}, {})] == [0, 1, 1]
    rooms.take(line(), 1)
    assert rooms.room(line(other="x")) == 0


def test_a_job_needs_room_in_all_its_limits_and_pays_its_cost():
    limits = (concurrency(10), rate(6, cost="units"))
    rooms = Rooms(limits, {(2, ""): RateRoom(6, 0.0, 0.3)})
    assert rooms.room(line(units="4")) == 1
    assert rooms.room(line(units="2")) == 3
    rooms.take(line(units="4"), 1)
    assert rooms.room(line(units="2")) == 1
    assert rooms.room(line(units="3")) == 0
    assert [rooms.room(line(units=odd)) for odd in ("0", "-1", "x", "", "1.5", "9999999999")] == [2] * 6
    assert rooms.room(line("elsewhere")) == 1_000_000


def test_released_jobs_will_want_their_tokens_and_running_ones_have_had_theirs():
    rooms = Rooms((rate(6, cost="units"),), {(2, ""): RateRoom(6, 0.0, 0.3)})
    text = line(units="2").text
    rooms.count([InHand("q", "t", "running", text, 9), InHand("q", "t", "enqueued", text, 2)], released_too=True)
    assert rooms.room(line()) == 2


def test_only_a_line_that_waits_for_rates_alone_knows_when_it_may_go():
    rooms = Rooms((concurrency(1, queues=("both",)), rate(1, queues=("q", "both"))), {(2, ""): RateRoom(0, 0.4, 0.9)})
    assert rooms.free_in(line()) == 0.4
    assert rooms.free_in(line("elsewhere")) is None
    rooms.take(line("both"), 1)
    assert rooms.free_in(line("both")) is None


@pytest.mark.parametrize(("next_in", "expected"), [(0.3, 0.3), (3600.0, 1.0)])
def test_a_line_whose_tokens_are_on_their_way_to_others_is_looked_at_within_a_second(next_in, expected):
    rooms = Rooms((rate(6),), {(2, ""): RateRoom(2, 0.0, next_in)})
    assert rooms.free_in(line()) is None
    rooms.take(line(), 2)
    assert rooms.free_in(line()) == expected
    (blocker,) = rooms.blockers(line())
    assert rooms.free_in_of(blocker) == next_in


def test_where_jobs_keep_their_order_one_that_has_begun_leaves_room_for_itself_alone():
    rooms = Rooms((concurrency(1, per="k", ordered=True),))
    begun = Line('["", "", {"k": "a"}, "begun"]', "q", "t")
    rooms.count([InHand("q", "t", "begun", begun.text, 1)], released_too=True)
    assert [rooms.room(one) for one in (line(k="a"), begun, line(k="b"))] == [0, 1, 1]
    rooms.take(begun, 1)
    assert rooms.room(begun) == 0
    waits = Rooms((concurrency(1, per="k"),))
    waits.count([InHand("q", "t", "begun", begun.text, 1)], released_too=True)
    assert waits.room(line(k="a")) == 1
