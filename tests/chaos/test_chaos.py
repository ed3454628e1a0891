"""The short chaos run of `make test`: every kind of fault once, in the order of a fixed seed."""

from __future__ import annotations

import json
import random
import re
from itertools import islice
from pathlib import Path

import pytest

from mainspring.fault_points import CRASHES, LIES

from .campaign import go_on, read, table
from .checker import LIMIT, RATE, _exceeded, _too_fast
from .faults import drawn, kinds
from .mix import MIXES, ONE
from .plan import Plan
from .registry import FAULTS
from .run import run

ROOT = Path(__file__).parents[2]
#: Here each kind comes once; a campaign gives the system more time between them.
HURRIED = (0.2, 1.5)


def halves() -> list[list[str]]:
    """All kinds of faults of the plain mix in two runs, so that two workers share them."""
    names = kinds(ONE)
    random.Random(20).shuffle(names)
    return [names[::2], names[1::2]]


@pytest.mark.slow
@pytest.mark.timeout(500)
@pytest.mark.parametrize("half", [0, 1])
def test_every_kind_of_fault_loses_nothing_and_doubles_nothing(half: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # On servers of its own, which it breaks.
    for name in ("MAINSPRING_DATABASE_URL", "MAINSPRING_AMQP_URL"):
        monkeypatch.delenv(name, raising=False)
    names = halves()[half]
    outcome = run(Plan(jobs=120, seed=half, pauses=HURRIED), names)
    assert outcome.faults == names
    assert outcome.is_clean, json.dumps(outcome.figures())
    assert outcome.report.accepted == 120


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_every_kind_of_network_trouble_loses_nothing_and_doubles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MAINSPRING_DATABASE_URL", "MAINSPRING_AMQP_URL"):
        monkeypatch.delenv(name, raising=False)
    names = sorted(set(kinds(MIXES["network"])) - set(kinds(ONE)))
    assert len(names) == 6
    outcome = run(Plan(jobs=80, seed=6, mix="network", pauses=HURRIED), names)
    assert outcome.is_clean, json.dumps(outcome.figures())
    assert outcome.deaths == 0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_process_that_dies_at_any_step_or_is_lied_to_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MAINSPRING_DATABASE_URL", "MAINSPRING_AMQP_URL"):
        monkeypatch.delenv(name, raising=False)
    deaths = 0
    for _ in range(3):  # chance decides how many die: a run in which few do is short, and another follows
        outcome = run(Plan(jobs=100, seed=5, chance=0.02))
        assert outcome.is_clean, json.dumps(outcome.figures())
        deaths += outcome.deaths
        if deaths > 5:
            break
    assert deaths > 5


def test_every_step_is_one_that_the_code_reaches() -> None:
    sources = "\n".join(path.read_text() for folder in ("libs", "services") for path in (ROOT / folder).rglob("*.py"))
    named = set(re.findall(r'reach\("([\w.]+)"\)', sources)) | set(re.findall(r'is_lie\("(\w+)"\)', sources))
    assert named == CRASHES | LIES


def names_of(plan: Plan) -> list[str]:
    return list(plan.names())


def test_a_seed_gives_the_same_faults_again() -> None:
    assert names_of(Plan(1, 7, faults=40)) == names_of(Plan(1, 7, faults=40))
    assert names_of(Plan(1, 7, faults=40)) != names_of(Plan(1, 8, faults=40))
    assert set(names_of(Plan(1, 7, faults=400))) == set(kinds(ONE))
    assert set(names_of(Plan(1, 7, faults=400, only="kill,stop"))) == {"kill", "stop"}
    assert list(islice(drawn(7, []), 40)) == list(islice(Plan(1, 7, duration=9).names(), 40))


def test_a_mix_draws_only_what_it_can_have_and_every_kind_has_a_mix() -> None:
    assert {name for mix in MIXES.values() for name in kinds(mix)} == set(FAULTS)
    assert {"wipe_broker", "kill_broker"} < set(kinds(ONE))
    for name in ("kill_node", "cut_off_node", "lose_primary", "skew_clock", "swap_version"):
        assert name not in kinds(ONE)
        assert name in kinds(MIXES["all"])
    assert "wipe_broker" not in kinds(MIXES["cluster"])


def line(plan: Plan) -> dict[str, object]:
    figures = {"ok": plan.seed != 3, "accepted": plan.jobs, "faults": 4, "lost": int(plan.seed == 3)}
    return figures | {"seconds": 60, "commit": "abc", "asked": plan.asked()}


def test_a_campaign_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    plans = [Plan(100, seed, mix) for seed in (1, 2) for mix in ("one", "all")]
    path = tmp_path / "runs.jsonl"
    first = go_on(path, plans[:1], line, 60)
    assert (first.done, first.unclean, first.left) == (1, 0, 0)
    with path.open("a") as file:
        file.write('{"torn')
    second = go_on(path, plans, line, 60)
    assert (second.done, second.left) == (3, 0)
    assert [one["asked"] for one in read(path)] == [plan.asked() for plan in plans]


def test_a_campaign_begins_nothing_that_lasts_beyond_its_piece(tmp_path: Path) -> None:
    piece = go_on(tmp_path / "runs.jsonl", [Plan(100, seed) for seed in (1, 2, 3)], line, 0)
    assert (piece.done, piece.left) == (1, 2)


def test_a_campaign_is_a_table_with_its_sum() -> None:
    shown = table([line(Plan(100, 2, "cluster")), line(Plan(50, 3))])
    assert "| cluster | 100 | 4 | 2 | yes | 60 | abc |" in shown
    assert "| one | 50 | 4 | 3 | no: `lost` 1 | 60 | abc |" in shown
    assert "| **2 runs** | 150 | 8 |  | 1 of 2 | 120 |  |" in shown


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
    assert _exceeded(runs, LIMIT) == exceeded


@pytest.mark.parametrize(
    ("starts", "too_fast"),
    [([0.0] * RATE, 0), ([0.0] * RATE + [1.0], 0), ([0.0] * RATE + [0.99], 1), ([0.1 * n for n in range(11)], 6)],
)
def test_the_checker_sees_a_rate_that_was_exceeded(starts: list[float], too_fast: int) -> None:
    assert _too_fast(starts) == too_fast
