"""A breadth-first walk over all states of a machine, and the shortest way to what must not be."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Generic, NamedTuple, TypeVar

from mainspring.domain.states import Event, State


class Kind(Enum):
    """Why a step happens."""

    NORMAL = auto()
    #: Something is noticed after a while, by a lease's end or a reconciling pass.
    TIMER = auto()
    FAULT = auto()
    PERSON = auto()


#: What happens by itself, and so may be counted on to reach an end.
PROGRESS = frozenset({Kind.NORMAL, Kind.TIMER})


class Edge(NamedTuple):
    """A change of a row's state."""

    event: Event
    source: State
    target: State


S = TypeVar("S", bound=Hashable)


class Step(NamedTuple, Generic[S]):
    """One atomic change. ``wrong`` names the property that the step itself breaks."""

    label: str
    kind: Kind
    after: S
    edge: Edge | None = None
    wrong: str | None = None


@dataclass(frozen=True, slots=True)
class Machine(Generic[S]):
    """What the checker walks: a first state, the steps from each, what is wrong in one, and which are ends."""

    first: S
    steps: Callable[[S], Iterable[Step[S]]]
    wrong: Callable[[S], str | None]
    is_end: Callable[[S], bool]


@dataclass(slots=True)
class Exploration(Generic[S]):
    """All that was reached."""

    machine: Machine[S]
    came_by: dict[S, tuple[S, str] | None] = field(default_factory=dict)
    #: By broken property, the labels of a shortest way to it.
    violations: dict[str, list[str]] = field(default_factory=dict)
    edges: set[Edge] = field(default_factory=set)
    _led_here: defaultdict[S, list[S]] = field(default_factory=lambda: defaultdict(list))

    def way_to(self, state: S) -> list[str]:
        """The labels of a shortest run that ends in ``state``."""
        labels: list[str] = []
        while (origin := self.came_by[state]) is not None:
            state, label = origin
            labels.append(label)
        return labels[::-1]

    def stuck(self) -> list[str] | None:
        """A shortest way to a state from which no end can be reached by what happens by itself; None: there is none."""
        alive = {state for state in self.came_by if self.machine.is_end(state)}
        frontier = list(alive)
        while frontier:
            for earlier in self._led_here[frontier.pop()]:
                if earlier not in alive:
                    alive.add(earlier)
                    frontier.append(earlier)
        lost = next((state for state in self.came_by if state not in alive), None)
        return None if lost is None else self.way_to(lost)

    def walk(self, until: str | None = None) -> Exploration[S]:
        """Visit every state, or stop at the first violation of ``until``."""
        self.came_by[self.machine.first] = None
        waiting = deque([self.machine.first])
        while waiting and until not in self.violations:
            state = waiting.popleft()
            waiting.extend(self._visit(state))
        return self

    def _visit(self, state: S) -> Iterator[S]:
        for step in self.machine.steps(state):
            is_new = step.after not in self.came_by
            if is_new:
                self.came_by[step.after] = (state, step.label)
            if step.kind in PROGRESS:
                self._led_here[step.after].append(state)
            if step.edge:
                self.edges.add(step.edge)
            for broken in (step.wrong, self.machine.wrong(step.after) if is_new else None):
                if broken and broken not in self.violations:
                    self.violations[broken] = [*self.way_to(state), step.label]
            if is_new:
                yield step.after
