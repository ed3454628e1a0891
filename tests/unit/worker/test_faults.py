"""Exceptions as text that can always be stored, whatever they hold."""

from __future__ import annotations

import json
import traceback

import pytest

from mainspring.domain.job import json_text
from mainspring.worker.faults import attempt_error, safe_text

MOST_BYTES = 16 * 1024


class Unspeakable(Exception):
    def __init__(self, problem):
        super().__init__()
        self.problem = problem

    def __str__(self):
        raise self.problem


class TwoArguments(Exception):
    def __init__(self, first, second):
        super().__init__(first)
        self.second = second


def caught(raising):
    try:
        raising()
    except BaseException as error:  # noqa: BLE001  the kinds that no handler should raise are tried too
        return error
    raise AssertionError("nothing was raised")


def thrown(error):
    def raising():
        raise error

    return caught(raising)


def endless():
    endless()


def cycle():
    first, second = ValueError("first"), KeyError("second")
    first.__cause__, second.__cause__ = second, first
    return first


def chain(length):
    last = ValueError("the root")
    for number in range(length):
        link = ValueError(f"link {number}")
        link.__context__, last = last, link
    return last


def nest(depth):
    group = ExceptionGroup("leaf", [ValueError("leaf")])
    for level in range(depth):
        group = ExceptionGroup(f"level {level}", [group])
    return group


def named(name):
    kind = type("Odd", (Exception,), {})
    kind.__qualname__ = name
    return kind("boom")


ODD = {
    "plain": ValueError("boom"),
    "__str__ raises": Unspeakable(ValueError("no")),
    "__str__ raises without end": Unspeakable(RecursionError()),
    "__str__ exits": Unspeakable(SystemExit(3)),
    "10 MB": ValueError("x" * 10_000_000),
    "10 MB of NUL": ValueError("\0" * 10_000_000),
    "many surrogates": ValueError("\ud800" * 100_000),
    "many wide characters": ValueError("😀" * 100_000),
    "NUL": ValueError("a\0b"),
    "half a pair": ValueError("a\ud800b"),
    "two arguments": TwoArguments("first", object()),
    "cycle": cycle(),
    "long chain": chain(3000),
    "group of 1000": ExceptionGroup("many", [ValueError(str(number)) for number in range(1000)]),
    "deep group": nest(200),
    "bytes": ValueError(b"\xff\0"),
    "no argument": SystemExit(),
    "keyboard": KeyboardInterrupt(),
    "class name with NUL": named("a\0b"),
    "class name with half a pair": named("a\ud800b"),
    "endless class name": named("x" * 1_000_000),
    "code that can't be compiled": SyntaxError("odd", ("\0\ud800", 1, 1, "\0\ud800")),
}


@pytest.mark.parametrize("error", [pytest.param(error, id=name) for name, error in ODD.items()])
def test_w05_any_exception_becomes_bounded_text_that_postgres_takes(error):
    stored = attempt_error(thrown(error)).as_json()
    assert sum(len(text.encode()) for text in stored.values()) <= MOST_BYTES
    assert json_text(stored, "error")
    assert json.loads(json.dumps(stored)) == stored


def test_w05_a_recursion_error_is_described_in_bounded_text():
    described = attempt_error(caught(endless))
    assert described.type == "RecursionError"
    assert "in endless" in described.traceback


def test_w05_the_class_name_survives_a_text_that_cannot_be_made():
    described = attempt_error(thrown(Unspeakable(ValueError("no"))))
    assert described.type == "Unspeakable"
    assert described.message == "(its text could not be made: ValueError)"


def test_an_exception_without_a_traceback_that_can_be_made_is_described(monkeypatch):
    def refuse(*_args, **_more):
        raise RecursionError

    monkeypatch.setattr(traceback, "format_exception", refuse)
    described = attempt_error(ValueError("boom"))
    assert (described.message, described.traceback) == ("boom", "(its traceback could not be made: RecursionError)")


def test_the_cause_is_in_the_traceback():
    error = ValueError("boom")
    error.__cause__ = KeyError("the root")
    described = attempt_error(thrown(error))
    assert described.type == "ValueError"
    assert "KeyError: 'the root'" in described.traceback
    assert "direct cause" in described.traceback


def test_a_nested_class_is_named_with_its_place():
    class Inner(Exception):
        pass

    assert attempt_error(Inner()).type.endswith("<locals>.Inner")


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("", ""),
        ("boom", "boom"),
        ("x" * 20, "x" * 20),
        ("a\0b", "a\\x00b"),
        ("a\ud800b", "a\\ud800b"),
        ("ä😀", "ä😀"),
        ("x" * 21, "… " + "x" * 16),
        ("first, second, third, last", "… ond, third, last"),
        ("😀" * 6, "… " + "😀" * 4),
    ],
)
def test_text_keeps_its_end_and_shows_what_cannot_be_stored(text, safe):
    assert safe_text(text, 20) == safe
