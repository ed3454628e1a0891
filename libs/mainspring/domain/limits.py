"""Limits on what starts: how many at once (concurrency), how many in a span of time (rate); in all, or for each key.

What has room is decided here alone, for the release, the admission and the answer to "why doesn't it run?" alike. The
arithmetic of a rate is in the database (``mainspring.rate_room``), since tokens are taken there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from mainspring.domain.errors import InvalidInput
from mainspring.domain.job import check_name

MOST = 1_000_000
LONGEST_PERIOD = 30 * 86400.0
SHORTEST_PERIOD = 0.001
#: Seconds after which tokens are looked at again that wait for jobs which are on their way: one may not take its own.
LONGEST_ON_THE_WAY = 1.0
#: Queues and tasks of one limit, each.
MOST_NAMES = 100
#: The line of a job that nothing tells apart from others.
NO_LINE = '["", "", {}]'
_PATH = re.compile(r"[^.\s\0]{1,64}(\.[^.\s\0]{1,64}){0,7}")


class Kind(StrEnum):
    """What a limit counts."""

    CONCURRENCY = "concurrency"
    RATE = "rate"


class Strategy(StrEnum):
    """What a concurrency limit does when a due job finds no slot."""

    #: The job waits.
    WAIT = "wait"
    #: Of the due jobs of a key the newest stay, as many as have slots: older ones are cancelled, also while they run.
    CANCEL_RUNNING = "cancel_running"
    #: The job is cancelled, unless it has begun before.
    CANCEL_NEW = "cancel_new"


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit on the jobs of its queues and of its tasks; with ``per``, on those of each key apart.

    ``most`` jobs that hold a slot at once, or ``most`` tokens in any span of ``period_seconds``. A rate gives out
    ``burst`` of them at once; a burst above ``most`` is a bucket of tokens, which is filled by the rate. A job takes
    the tokens that its payload has at ``cost``, one without that.

    ``ordered``: of the jobs of a key only one is between its first start and its end, so that they run in the order in
    which they became due, retries included.
    """

    name: str
    kind: Kind
    most: int
    queues: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    per: str | None = None
    period_seconds: float | None = None
    burst: int | None = None
    cost: str | None = None
    note: str | None = None
    strategy: Strategy = Strategy.WAIT
    ordered: bool = False
    id: int = 0
    #: The circuit that it holds the jobs of, and the seconds until that may be probed: until then nothing goes.
    circuit: str | None = None
    shut_for: float = 0.0

    def __post_init__(self) -> None:
        if self.circuit is not None:
            return
        check_name("name", self.name)
        _check_names("queues", self.queues)
        _check_names("tasks", self.tasks)
        if not self.queues and not self.tasks:
            raise InvalidInput("queues", "name at least one queue or task")
        if not 1 <= self.most <= MOST:
            raise InvalidInput("most", f"must be from 1 to {MOST}")
        check_path("per", self.per)
        check_path("cost", self.cost)
        if self.ordered and (self.kind, self.most, self.strategy) != (Kind.CONCURRENCY, 1, Strategy.WAIT):
            raise InvalidInput("ordered", "needs a concurrency of 1, and the strategy wait")
        if self.kind is Kind.RATE:
            self._check_rate()
            if self.strategy is not Strategy.WAIT:
                raise InvalidInput("strategy", "belongs to a concurrency")
        elif (self.period_seconds, self.burst, self.cost) != (None, None, None):
            raise InvalidInput("kind", "period_seconds, burst and cost belong to a rate")

    def _check_rate(self) -> None:
        if self.period_seconds is None or not SHORTEST_PERIOD <= self.period_seconds <= LONGEST_PERIOD:
            raise InvalidInput("period_seconds", f"must be from {SHORTEST_PERIOD:g} to {LONGEST_PERIOD:g} seconds")
        if self.burst is None or not 1 <= self.burst <= MOST:
            raise InvalidInput("burst", f"must be from 1 to {MOST}")

    def applies_to(self, queue: str, task: str) -> bool:
        """True when a job of this task in this queue is under the limit."""
        return queue in self.queues or task in self.tasks


def _check_names(field_name: str, names: tuple[str, ...]) -> None:
    if len(names) > MOST_NAMES:
        raise InvalidInput(field_name, f"at most {MOST_NAMES}")
    if len(set(names)) < len(names):
        raise InvalidInput(field_name, "names one of them twice")
    for index, name in enumerate(names):
        check_name(f"{field_name}.{index}", name)


def check_path(field_name: str, path: str | None) -> None:
    """A place in a payload: names joined by dots, up to eight. Raises InvalidInput."""
    if path is not None and not _PATH.fullmatch(path):
        raise InvalidInput(field_name, "must be a place in the payload, such as customer or customer.id")


class Line(NamedTuple):
    """Due jobs of a queue that are told apart by nothing: the same limits and the same keys (``draw_line`` in SQL)."""

    text: str
    queue: str
    task: str
    priority: int = 0
    #: The priority that it is served with: its first job may have waited for long.
    rank: int = 0

    def keys(self) -> dict[str, str]:
        """The values by place in the payload."""
        keys: dict[str, str] = json.loads(self.text)[2]
        return keys

    @property
    def keeps_slot(self) -> bool:
        """True for jobs that have begun: where a limit keeps jobs in order they have their slot already."""
        return self.text.endswith('"begun"]')

    def turn(self) -> str:
        """The beginning of the text that all lines have that take one turn together; the whole, if it takes its own."""
        if self.text.startswith('[""'):
            return self.text
        return self.text[: json.JSONDecoder().raw_decode(self.text, 1)[1]]


class InHand(NamedTuple):
    """Jobs that are told apart by nothing and are released, or hold a slot."""

    queue: str
    task: str
    state: str
    line: str
    jobs: int


class RateRoom(NamedTuple):
    """The tokens that a rate has for a key, and the seconds until it has one, and at least until it has one more."""

    room: int
    free_in: float
    next_in: float


Bucket = tuple[int, str]


class Blocker(NamedTuple):
    """The limit that a job waits for, the key that it counts by, and how much is left: less than the job takes."""

    limit: Limit
    key: str
    left: int


@dataclass(slots=True)
class Rooms:
    """What limits have left, by limit and key; ``take`` counts down."""

    limits: tuple[Limit, ...]
    rates: Mapping[Bucket, RateRoom] = field(default_factory=dict)
    _taken: dict[Bucket, int] = field(default_factory=dict)
    _kept: dict[Bucket, int] = field(default_factory=dict)
    _needs: dict[tuple[str, str, str], tuple[tuple[Limit, str, int], ...]] = field(default_factory=dict)

    def count(self, in_hand: Iterable[InHand], *, released_too: bool) -> None:
        """Take away what is in hand: slots that are held, and with ``released_too`` what will want one soon."""
        for one in in_hand:
            for limit, key, cost in self.needs(Line(one.line, one.queue, one.task)):
                bucket = limit.id, key
                if one.state == "begun":
                    self._kept[bucket] = self._kept.get(bucket, 0) + (one.jobs if limit.ordered else 0)
                elif limit.kind is Kind.RATE:
                    self._take(bucket, 0 if one.state == "running" else one.jobs * cost)
                elif released_too or one.state != "enqueued":
                    self._take(bucket, one.jobs)

    def needs(self, line: Line) -> tuple[tuple[Limit, str, int], ...]:
        """The limits that the line's jobs are under, each with its key and what a job takes of it."""
        mark = (line.text, line.queue, line.task)
        found = self._needs.get(mark)
        if found is None:
            found = self._needs[mark] = tuple(_needs(self.limits, line))
        return found

    def are_told_by(self, line: Line) -> bool:
        """False when a limit that the line's jobs are under counts by a place of which the line says nothing."""
        paths = {limit.per for limit, _, _ in self.needs(line)} - {None}
        return not paths or paths <= line.keys().keys()

    def room(self, line: Line) -> int:
        """How many jobs of the line may go now. Without a limit, as many as there are."""
        return min((self.left(limit, key, line) // cost for limit, key, cost in self.needs(line)), default=MOST)

    def take(self, line: Line, jobs: int) -> None:
        """So many jobs of the line go."""
        for limit, key, cost in self.needs(line):
            self._take((limit.id, key), jobs * cost)

    def blockers(self, line: Line) -> list[Blocker]:
        """The limits that leave no room for a job of the line."""
        lefts = ((limit, key, cost, self.left(limit, key, line)) for limit, key, cost in self.needs(line))
        return [Blocker(limit, key, left) for limit, key, cost, left in lefts if left < cost]

    def free_in(self, line: Line) -> float | None:
        """The seconds until a line that waits for time alone (rates, open circuits) may send a job; None for others."""
        blockers = self.blockers(line)
        if not blockers or any(one.limit.kind is not Kind.RATE and not one.limit.shut_for for one in blockers):
            return None
        return max(map(self._look_in, blockers))

    def _look_in(self, blocker: Blocker) -> float:
        is_on_the_way = blocker.limit.kind is Kind.RATE and self._taken.get((blocker.limit.id, blocker.key))
        free_in = self.free_in_of(blocker)
        return min(free_in, LONGEST_ON_THE_WAY) if is_on_the_way else free_in

    def free_in_of(self, blocker: Blocker) -> float:
        """The seconds until a rate has a token, or an open circuit is probed; 0 for others."""
        if blocker.limit.shut_for:
            return blocker.limit.shut_for
        bucket = blocker.limit.id, blocker.key
        rate = self.rates.get(bucket)
        if rate is None:
            return 0.0
        # What is there now goes to jobs that are on their way.
        return rate.next_in if self._taken.get(bucket) else rate.free_in

    def left(self, limit: Limit, key: str, line: Line) -> int:
        """What one of the line's limits has left for its jobs: slots, or tokens."""
        if limit.shut_for:
            return 0
        bucket = limit.id, key
        has = limit.most
        if limit.kind is Kind.RATE:
            has = self.rates[bucket].room if bucket in self.rates else limit.burst or 1
        elif not line.keeps_slot:
            has -= self._kept.get(bucket, 0)
        return max(has - self._taken.get(bucket, 0), 0)

    def _take(self, bucket: Bucket, amount: int) -> None:
        self._taken[bucket] = self._taken.get(bucket, 0) + amount


def _needs(limits: Iterable[Limit], line: Line) -> Iterator[tuple[Limit, str, int]]:
    keys = line.keys()
    for limit in limits:
        if limit.applies_to(line.queue, line.task):
            yield limit, keys.get(limit.per, "") if limit.per else "", _cost(limit, keys)


def _cost(limit: Limit, keys: Mapping[str, Any]) -> int:
    """As ``mainspring.cost_of``: a whole number from 1 to all that the limit ever gives at once."""
    if limit.cost is None:
        return 1
    asked = keys.get(limit.cost, "")
    is_number = re.fullmatch(r"[0-9]{1,9}", asked) is not None
    return max(1, min(int(asked), limit.burst or 1)) if is_number else 1
