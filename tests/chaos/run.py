"""`make chaos`: real services, real faults at random moments, and a checker that trusts none of them.

The seed decides which faults come in which order, and what is submitted: a run that fails is tried again with its seed.
The last line on stdout is the counters as one JSON object; the exit code is 0 only if all that must be 0 are.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass

from mainspring.devstack.errors import DevstackError

from .checker import Report, check
from .faults import FAULTS, schedule_of
from .world import Client, World, open_world, say

#: Seconds between two faults: from quick blows to time enough for everything to come back.
PAUSES = (0.5, 6.0)
#: What a fault takes, with its pause, on average.
SECONDS_PER_FAULT = 7.0
#: How fast jobs are submitted at most.
JOBS_PER_SECOND = 20.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run found."""

    report: Report
    faults: list[str]
    bad_stops: int
    #: Processes that died by themselves: at the steps where a test has them die.
    deaths: int
    seconds: float
    seed: int

    @property
    def is_clean(self) -> bool:
        """True when it found nothing wrong."""
        return self.report.is_clean and not self.bad_stops

    def figures(self) -> dict[str, object]:
        """The last line."""
        kinds = dict(sorted(Counter(self.faults).items()))
        more = {"faults": len(self.faults), "kinds": kinds, "stops_not_clean": self.bad_stops, "deaths": self.deaths}
        return {
            "ok": self.is_clean,
            **asdict(self.report),
            **more,
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
        }


def run(*, jobs: int, names: list[str], seed: int, chance: float = 0.0) -> Outcome:
    """One run with these faults, from its servers to its report."""
    started = time.monotonic()
    dice = random.Random(seed)
    with open_world(chance) as world:
        client = Client(world, jobs, seed, max(len(names) * SECONDS_PER_FAULT, jobs / JOBS_PER_SECOND))
        client.start()
        for number, name in enumerate(names, start=1):
            time.sleep(dice.uniform(*PAUSES))
            say(f"{time.monotonic() - started:6.1f} s  fault {number} of {len(names)}: {name}")
            with world.hands:
                FAULTS[name](world, dice)
        client.join()
        if client.failure is not None:
            raise client.failure
        say(f"{time.monotonic() - started:6.1f} s  {len(client.accepted)} jobs accepted; waiting for their ends …")
        left = world.come_to_rest()
        report = check(world.query, client.accepted, left)
        if not report.is_clean:
            _keep_evidence(world)
        return Outcome(report, names, world.bad_stops, world.deaths, time.monotonic() - started, seed)


def _keep_evidence(world: World) -> None:
    """What a person looks at first."""
    say(world.query("SELECT id, task, queue, state, reason, fence, attempt, due_at FROM mainspring.live_jobs LIMIT 20"))
    for one in world.fleet.services:
        say(f"== {one.name}\n{one.log_tail(12)}")


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000, help="jobs that are submitted while faults come")
    parser.add_argument("--faults", type=int, default=30, help="how many faults")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="decides everything that is drawn")
    parser.add_argument("--only", default="", help=f"these faults, separated by commas: {', '.join(sorted(FAULTS))}")
    parser.add_argument("--chance", type=float, default=0.0, help="of dying, or being lied to, at each protocol step")
    asked = parser.parse_args()
    only = [name for name in asked.only.split(",") if name]
    if unknown := set(only) - set(FAULTS):
        parser.error(f"no such fault: {', '.join(sorted(unknown))}")
    say(f"seed {asked.seed}")
    try:
        outcome = run(
            jobs=asked.jobs, names=schedule_of(asked.seed, asked.faults, only), seed=asked.seed, chance=asked.chance
        )
    except DevstackError as error:
        say(f"mainspring: {error}")
        return 2
    print(json.dumps(outcome.figures()))
    return 0 if outcome.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
