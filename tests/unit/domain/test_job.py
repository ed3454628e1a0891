"""What a request may hold, and which field is named when it doesn't."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest

from mainspring.domain.errors import InvalidInput
from mainspring.domain.job import MOST_PAYLOAD_BYTES, JobRef, JobRequest, check_name, json_text, payload_text

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def refused(work):
    with pytest.raises(InvalidInput) as refusal:
        work()
    return refusal.value.field


def test_names_of_the_documented_form_are_taken():
    for name in ("a", "0", "billing.charge", "a_b-c.d", "a..b", "x" * 63):
        assert check_name("queue", name) == name


@pytest.mark.parametrize(
    "name",
    ["", "A", ".a", "_a", "-a", "a b", "a\n", "a/b", "a*", "a#", "ä", "x" * 64, "a\0", "\ud800", None, 5, b"a", ["a"]],
)
def test_any_other_name_is_refused_by_its_field(name):
    assert refused(lambda: check_name("queue", name)) == "queue"
    assert refused(lambda: JobRequest(name)) == "task"
    if name is not None:
        assert refused(lambda: JobRequest("a", queue=name)) == "queue"


def test_keys_of_1_to_255_printable_characters_are_taken():
    for key in ("k", " ", "x" * 255, "ключ", "invoice:2026-01"):
        assert JobRequest("a", idempotency_key=key).idempotency_key == key


@pytest.mark.parametrize("key", ["", "x" * 256, "x" * 10_000, "a\nb", "a\0", "\ud800", "a\tb", "\x7f", "a\u200bb"])
def test_a01_other_keys_are_refused(key):
    assert refused(lambda: JobRequest("a", idempotency_key=key)) == "idempotency_key"


@pytest.mark.parametrize("field", ["run_at", "expires_at"])
@pytest.mark.parametrize(
    "instant",
    [
        NOON.replace(tzinfo=None),
        datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC),
        datetime(1970, 1, 1, tzinfo=timezone(timedelta(hours=1))),
        datetime(9000, 1, 1, 0, 0, 1, tzinfo=UTC),
        datetime.max.replace(tzinfo=UTC),
    ],
)
def test_an_instant_without_a_zone_or_out_of_range_is_refused(field, instant):
    assert refused(lambda: JobRequest("a", **{field: instant})) == field


@pytest.mark.parametrize(
    "instant", [NOON, NOON.astimezone(timezone(timedelta(hours=14))), datetime(1970, 1, 1, tzinfo=UTC)]
)
def test_an_aware_instant_is_taken(instant):
    assert JobRequest("a", run_at=instant, expires_at=instant).run_at == instant


def test_run_at_and_delay_exclude_each_other():
    assert refused(lambda: JobRequest("a", run_at=NOON, delay=timedelta(1))) == "delay"


def test_priorities_from_0_to_9_are_taken():
    for priority in range(10):
        assert JobRequest("a", priority=priority).priority == priority


@pytest.mark.parametrize("priority", [-1, 10, 2.5, math.nan, "5", "high"])
def test_any_other_priority_is_refused(priority):
    assert refused(lambda: JobRequest("a", priority=priority)) == "priority"


@pytest.mark.parametrize(
    ("field", "span"),
    [
        ("timeout", timedelta(0)),
        ("timeout", timedelta(microseconds=999)),
        ("timeout", timedelta(days=30, microseconds=1)),
        ("delay", timedelta(microseconds=-1)),
        ("delay", timedelta(days=3661)),
    ],
)
def test_a_span_out_of_range_is_refused_by_its_name_on_the_wire(field, span):
    assert refused(lambda: JobRequest("a", **{field: span})) == f"{field}_seconds"


@pytest.mark.parametrize(
    ("tags", "field"),
    [
        (("a",) * 33, "tags"),
        (("a", ""), "tags.1"),
        (("a\n",), "tags.0"),
        (("a\x1fb",), "tags.0"),
        (("x" * 101,), "tags.0"),
        ((5,), "tags.0"),
    ],
)
def test_a_bad_tag_is_refused_by_its_place(tags, field):
    assert refused(lambda: JobRequest("a", tags=tags)) == field


def test_a_changed_copy_is_checked_again():
    assert refused(lambda: replace(JobRequest("a"), queue="A")) == "queue"


@pytest.mark.parametrize("payload", [None, [], "x", 5, True])
def test_a_payload_must_be_an_object(payload):
    assert refused(lambda: payload_text(payload)) == "payload"


@pytest.mark.parametrize(
    ("payload", "path"),
    [
        ({"a": "x\0y"}, "payload.a"),
        ({"a\0": 1}, "payload.a\\x00"),
        ({"a": "\ud800"}, "payload.a"),
        ({"a": "ok \udfff"}, "payload.a"),
        ({"\ud800": 1}, "payload.\\ud800"),
        ({"a": [1, {"b": "\0"}]}, "payload.a.1.b"),
        ({"a": {"b": {"\0": 1}}}, "payload.a.b.\\x00"),
    ],
)
def test_w06_text_that_postgres_refuses_is_named_by_its_path(payload, path):
    assert refused(lambda: payload_text(payload)) == path


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, 10**308, -(10**308), 10**4000])
def test_w07_numbers_that_json_or_postgres_refuse_are_named_by_their_path(number):
    assert refused(lambda: payload_text({"a": [0, number]})) == "payload.a.1"


@pytest.mark.parametrize("body", ['{"a":NaN}', '{"a":1e400}', '{"a":1e5000}', '{"a":1e131071}', '{"a":-Infinity}'])
def test_w07_a_body_with_such_a_number_is_refused(body):
    assert refused(lambda: payload_text(json.loads(body))) == "payload.a"


@pytest.mark.parametrize("number", ["9007199254740993", "-0.0", "1.0", "0", "-1", "1e+308", "9" * 308, "5e-324"])
def test_w07_other_numbers_come_back_digit_for_digit(number):
    body = f'{{"a":{number}}}'
    assert payload_text(json.loads(body)) == body


@pytest.mark.parametrize("value", [object(), b"x", {1, 2}, datetime.now, NOON, (part for part in "ab"), 1j])
def test_w05_what_json_cannot_hold_is_named_by_its_path(value):
    assert refused(lambda: json_text({"a": value}, "result")) == "result.a"


def test_a_key_that_is_not_text_is_refused():
    assert refused(lambda: payload_text({"a": {1: 2}})) == "payload.a.1"


def nested(levels):
    value = {}
    for _ in range(levels):
        value = {"a": value}
    return value


def test_a_payload_may_be_64_levels_deep_and_no_deeper():
    assert payload_text(nested(64))
    assert refused(lambda: payload_text(nested(65))).startswith("payload.a.a")
    assert refused(lambda: payload_text(nested(100_000))).startswith("payload.a.a")


def test_a_payload_that_holds_itself_is_refused():
    endless = []
    endless.append(endless)
    assert refused(lambda: payload_text({"a": endless})).startswith("payload.a.0.0")


@pytest.mark.parametrize(("character", "size"), [("x", 1), ("ä", 2), ("😀", 4)])
def test_the_size_of_a_payload_is_counted_in_bytes(character, size):
    room = MOST_PAYLOAD_BYTES - len('{"a":""}')
    assert len(payload_text({"a": character * (room // size)}).encode()) <= MOST_PAYLOAD_BYTES
    assert refused(lambda: payload_text({"a": character * (room // size + 1)})) == "payload"


@pytest.mark.parametrize("payload", [{}, {"a": None, "b": True, "c": [1, [2.5, "ä😀\x7f"]], "": {}}])
def test_a_payload_is_read_back_as_it_was(payload):
    assert json.loads(payload_text(payload)) == payload


def test_a_reference_is_a_job_and_its_ticket():
    id_, ticket = JobRef(UUID(int=7), 3)
    assert (id_, ticket) == (UUID(int=7), 3)
