"""What one chaos run is asked to do; the same plan gives the same faults and the same jobs again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from .faults import drawn
from .mix import MIXES, Mix

#: What a fault takes by itself, on average; longer where several servers have to come together again.
SECONDS_PER_FAULT = {"one": 3.7, "clocks": 3.7, "versions": 4.7, "clocks-versions": 4.7}
SECONDS_PER_FAULT_OF_SEVERAL = 5.7
#: How fast jobs are submitted at most.
JOBS_PER_SECOND = 20.0


@dataclass(frozen=True, slots=True)
class Plan:
    """One run."""

    jobs: int
    seed: int
    mix: str = "one"
    faults: int = 0
    #: Draw faults for so many seconds, instead of a number of them.
    duration: float = 0.0
    #: Draw these only, separated by commas.
    only: str = ""
    #: Of dying, or of being lied to, at each step of the protocol.
    chance: float = 0.0
    #: The commit of the older release, in a mix with versions.
    old: str = ""
    #: How long to wait before each fault, in seconds: from quick blows to time enough for everything to come back.
    pauses: tuple[float, float] = (0.5, 6.0)

    @property
    def world(self) -> Mix:
        """What kind of world it is made in."""
        return MIXES[self.mix]

    def names(self) -> Iterator[str]:
        """The faults, in order; without end where the duration ends them."""
        faults = drawn(self.seed, [name for name in self.only.split(",") if name], self.world)
        return faults if self.duration else islice(faults, self.faults)

    def client_seconds(self, faults: int) -> float:
        """Over how long the jobs are submitted, such that they come while faults do."""
        each = SECONDS_PER_FAULT.get(self.mix, SECONDS_PER_FAULT_OF_SEVERAL) + sum(self.pauses) / 2
        return max(self.duration or faults * each, self.jobs / JOBS_PER_SECOND)

    def asked(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self) | {"pauses": list(self.pauses)}
