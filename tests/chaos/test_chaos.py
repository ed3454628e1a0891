"""The short chaos run of `make test`: every kind of fault once, in the order of a fixed seed."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest

from mainspring.fault_points import CRASHES, LIES

from .checker import _exceeded
from .faults import FAULTS, schedule_of
from .run import run

ROOT = Path(__file__).parents[2]


def halves() -> list[list[str]]:
    """All kinds of faults in two runs, so that two workers share them."""
    names = sorted(FAULTS)
    random.Random(20).shuffle(names)
    return [names[::2], names[1::2]]


@pytest.mark.timeout(500)
@pytest.mark.parametrize("half", [0, 1])
def test_every_kind_of_fault_loses_nothing_and_doubles_nothing(half: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # On servers of its own, which it breaks.
    for name in ("MAINSPRING_DATABASE_URL", "MAINSPRING_AMQP_URL"):
        monkeypatch.delenv(name, raising=False)
    names = halves()[half]
    outcome = run(jobs=120, names=names, seed=half)
    assert outcome.faults == names
    assert outcome.is_clean, json.dumps(outcome.figures())
    assert outcome.report.accepted == 120


@pytest.mark.timeout(300)
def test_a_process_that_dies_at_any_step_or_is_lied_to_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MAINSPRING_DATABASE_URL", "MAINSPRING_AMQP_URL"):
        monkeypatch.delenv(name, raising=False)
    outcome = run(jobs=200, names=[], seed=5, chance=0.015)
    assert outcome.is_clean, json.dumps(outcome.figures())
    assert outcome.deaths > 5


def test_every_step_is_one_that_the_code_reaches() -> None:
    sources = "\n".join(path.read_text() for folder in ("libs", "services") for path in (ROOT / folder).rglob("*.py"))
    named = set(re.findall(r'reach\("([\w.]+)"\)', sources)) | set(re.findall(r'is_lie\("(\w+)"\)', sources))
    assert named == CRASHES | LIES


def test_a_seed_gives_the_same_faults_again() -> None:
    assert schedule_of(7, 40, []) == schedule_of(7, 40, [])
    assert schedule_of(7, 40, []) != schedule_of(8, 40, [])
    assert set(schedule_of(7, 400, [])) == set(FAULTS)
    assert set(schedule_of(7, 40, ["kill"])) == {"kill"}


@pytest.mark.parametrize(
    ("runs", "exceeded"),
    [
        ([[0, 2], [0, 2], [0, 2]], 0),
        ([[0, 2], [0, 2], [0, 2], [2, 3]], 0),
        ([[0, 2], [0, 2], [0, 2], [1, 3]], 1),
        ([[0, 9], [0, 9], [0, 9], [1, 3], [2, 4]], 2),
    ],
)
def test_the_checker_sees_a_limit_that_was_exceeded(runs: list[list[float]], exceeded: int) -> None:
    assert _exceeded(runs) == exceeded
