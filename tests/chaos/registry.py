"""The kinds of faults, each with the mixes that can have it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .mix import Mix

if TYPE_CHECKING:
    from .world import World

Act = Callable[["World", random.Random], None]


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault, and which mixes can have it."""

    act: Act
    fits: Callable[[Mix], bool]


FAULTS: dict[str, Fault] = {}


def fault(fits: Callable[[Mix], bool] = lambda _: True) -> Callable[[Act], Act]:
    """A fault that a run can draw, by its function's name, in the mixes that it fits."""

    def register(act: Act) -> Act:
        FAULTS[act.__name__] = Fault(act, fits)
        return act

    return register
