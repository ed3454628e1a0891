"""`make chaos`: real services, real faults at random moments, and a checker that trusts none of them.

The seed decides which faults come in which order, and what is submitted: a run that fails is tried again with its seed.
The last line on stdout is the counters as one JSON object; the exit code is 0 only if all that must be 0 are.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from mainspring.devstack.errors import DevstackError

from . import campaign, evidence
from .checker import Report, check
from .client import Client
from .faults import kinds
from .mix import MIXES
from .plan import Plan
from .registry import FAULTS
from .world import World, open_world, say

ROOT = Path(__file__).parents[2]
PIECE_SECONDS = 1800.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run found."""

    plan: Plan
    report: Report
    faults: list[str]
    bad_stops: int
    #: Processes that died by themselves: at the steps where a test has them die.
    deaths: int
    seconds: float

    @property
    def is_clean(self) -> bool:
        """True when it found nothing wrong, and no process ended that wasn't made to."""
        return self.report.is_clean and not self.bad_stops and (self.deaths == 0 or self.plan.chance > 0)

    def figures(self) -> dict[str, Any]:
        """The last line."""
        return {
            "ok": self.is_clean,
            "mix": self.plan.mix,
            **asdict(self.report),
            "faults": len(self.faults),
            "kinds": dict(sorted(Counter(self.faults).items())),
            "stops_not_clean": self.bad_stops,
            "deaths": self.deaths,
            "seed": self.plan.seed,
            "seconds": round(self.seconds, 1),
            "commit": _commit(),
            "asked": self.plan.asked(),
        }


def run(plan: Plan, names: list[str] | None = None) -> Outcome:
    """One run, from its servers to its report; with these faults, if they are not to be drawn."""
    started = time.monotonic()
    chosen = plan.names() if names is None else names
    with open_world(plan.chance, plan.world, plan.old) as world, evidence.kept_after_an_error(world):
        client = Client(world, plan.jobs, plan.seed, plan.client_seconds(plan.faults or len(names or [])))
        client.start()
        faults = _break(world, plan, chosen)
        client.join()
        if client.failure is not None:
            raise client.failure
        say(f"{time.monotonic() - started:6.1f} s  {len(client.accepted)} jobs accepted; waiting for their ends …")
        left = world.come_to_rest()
        report = check(world.query, client.accepted, left)
        outcome = Outcome(plan, report, faults, world.bad_stops, world.deaths, time.monotonic() - started)
        if not outcome.is_clean:
            evidence.keep(world)
        return outcome


def _break(world: World, plan: Plan, names: Iterable[str]) -> list[str]:
    """Do the faults one after the other; returns what was done."""
    dice = random.Random(plan.seed)
    started = time.monotonic()
    done: list[str] = []
    for number, name in zip(count(1), names):
        time.sleep(dice.uniform(*plan.pauses))
        if plan.duration and time.monotonic() - started > plan.duration:
            break
        say(f"{time.monotonic() - started:6.1f} s  fault {number}: {name}")
        with world.hands:
            FAULTS[name].act(world, dice)
        done.append(name)
    return done


def _commit() -> str:
    """What was run; empty outside a checkout."""
    command = ["git", "describe", "--always", "--dirty", "--exclude", "*"]
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def _figures(plan: Plan) -> dict[str, Any]:
    """A campaign's line, also of a run that broke off."""
    say(f"mix {plan.mix}, seed {plan.seed}")
    try:
        return run(plan).figures()
    except evidence.BROKEN_OFF as error:
        say(f"mainspring: {error}")
        words = f"{type(error).__name__}: {error}".splitlines()[0]
        return {"ok": False, "error": words, "commit": _commit(), "asked": plan.asked()}


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000, help="jobs that are submitted while faults come")
    parser.add_argument("--faults", type=int, default=30, help="how many faults")
    parser.add_argument("--duration", type=float, default=0.0, help="draw faults for so many seconds, instead")
    parser.add_argument("--seed", type=int, help="decides everything that is drawn; a campaign's first is 1")
    parser.add_argument("--mix", default="one", help=f"{', '.join(MIXES)}; a campaign takes several")
    parser.add_argument("--only", default="", help=f"these faults, separated by commas: {', '.join(sorted(FAULTS))}")
    parser.add_argument("--chance", type=float, default=0.0, help="of dying, or being lied to, at each protocol step")
    parser.add_argument("--pause", type=float, default=6.0, help="seconds before each fault, at most")
    parser.add_argument("--old", default="", help="the older release's commit, in a mix with versions")
    parser.add_argument("--campaign", type=Path, help="a file: do the runs that it lacks, and append them")
    parser.add_argument("--runs", type=int, default=1, help="of a campaign, for each mix: seeds from --seed on")
    parser.add_argument("--piece", type=float, default=PIECE_SECONDS, help="begin no run that may end later (seconds)")
    return parser


def _plans(parser: argparse.ArgumentParser, asked: argparse.Namespace) -> list[Plan]:
    """What is to be run; ends the process when that makes no sense."""
    mixes = asked.mix.split(",")
    if unknown := set(mixes) - set(MIXES):
        parser.error(f"no such mix: {', '.join(sorted(unknown))}")
    for mix in mixes:
        if unknown := {name for name in asked.only.split(",") if name} - set(kinds(MIXES[mix])):
            parser.error(f"no such fault in the mix {mix}: {', '.join(sorted(unknown))}")
    if len(mixes) * asked.runs > 1 and asked.campaign is None:
        parser.error("several runs need --campaign FILE")
    faults = 0 if asked.duration else asked.faults
    # A campaign that goes on must come to the same plans.
    first = asked.seed if asked.seed is not None else 1 if asked.campaign else int(time.time())
    return [
        Plan(asked.jobs, seed, mix, faults, asked.duration, asked.only, asked.chance, asked.old, (0.2, asked.pause))
        for seed in range(first, first + asked.runs)
        for mix in mixes
    ]


def main() -> int:
    """The command line."""
    parser = _arguments()
    asked = parser.parse_args()
    plans = _plans(parser, asked)
    try:
        if asked.campaign:
            piece = campaign.go_on(asked.campaign, plans, _figures, asked.piece)
            print(json.dumps(asdict(piece)))
            return 1 if piece.unclean else 3 if piece.left else 0
        say(f"mix {plans[0].mix}, seed {plans[0].seed}")
        outcome = run(plans[0])
    except DevstackError as error:
        say(f"mainspring: {error}")
        return 2
    except pytest.skip.Exception as reason:
        say(f"not possible here: {reason}")
        return 2
    print(json.dumps(outcome.figures()))
    return 0 if outcome.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
