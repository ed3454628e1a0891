"""Why a job isn't running: what stands before it, in the order in which it would have to go away."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from mainspring.domain.limits import Blocker as LimitBlocker
from mainspring.domain.limits import Kind
from mainspring.domain.states import State

#: Jobs that hold a limit and are named.
MOST_NAMED = 5
#: Jobs ahead are counted as far as this.
MOST_AHEAD = 100_000


@dataclass(frozen=True, slots=True)
class HeldLimit:
    """A limit that has no room for the job: what is left, who holds it, and when a rate has room."""

    blocker: LimitBlocker
    held: int = 0
    held_by: tuple[UUID, ...] = ()
    free_in: float | None = None
    #: Of a circuit: when it opened, and the last error.
    since: datetime | None = None
    cause: str | None = None


@dataclass(frozen=True, slots=True)
class Serving:
    """The workers that live: how many serve the job's queue, know its task as well, and their slots."""

    workers: int = 0
    knowing: int = 0
    slots: int = 0
    free_slots: int = 0


@dataclass(frozen=True, slots=True)
class Facts:
    """A job that has not ended, and what it meets: all read at one instant."""

    now: datetime
    state: State
    reason: str | None
    queue: str
    task: str
    due_at: datetime
    attempts_used: int
    max_attempts: int
    schedule: str | None = None
    started_at: datetime | None = None
    worker: UUID | None = None
    lease_until: datetime | None = None
    released_at: datetime | None = None
    paused: bool = False
    paused_at: datetime | None = None
    paused_by: str | None = None
    note: str | None = None
    backs_off_until: datetime | None = None
    limits: tuple[HeldLimit, ...] = ()
    ahead: int = 0
    #: Jobs of the queue that leave the broker in a second, when anything is known of it.
    per_second: float | None = None
    serving: Serving = field(default_factory=Serving)
    #: The labels that its task asks of workers.
    requires: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One thing that stands before a job. ``estimate_seconds``: until it is gone, when that can be told."""

    kind: str
    message: str
    estimate_seconds: float | None = None
    details: dict[str, Any] = field(default_factory=dict)


def explain(facts: Facts) -> list[Obstacle]:
    """What stands before the job, the first first; empty: it starts at once. A job that runs says so."""
    if facts.state is State.RUNNING:
        return [_running(facts)]
    return [
        *_of_time(facts),
        *_of_the_queue(facts),
        *_of_workers(facts),
        *(_of_limit(one) for one in facts.limits),
        *_of_the_line(facts),
    ]


def _running(facts: Facts) -> Obstacle:
    since = facts.started_at or facts.now
    details = {"worker": facts.worker, "started_at": facts.started_at, "lease_until": facts.lease_until}
    return Obstacle("running", f"it runs, for {span(facts.now - since)}", details=details)


def _of_time(facts: Facts) -> Iterator[Obstacle]:
    if facts.reason == "overlap":
        yield Obstacle("overlap", f"kept back until the earlier jobs of schedule {facts.schedule} have ended")
        return
    left = (facts.due_at - facts.now).total_seconds()
    if left <= 0:
        return
    details = {"due_at": facts.due_at}
    if facts.attempts_used:
        message = f"attempt {facts.attempts_used + 1} of {facts.max_attempts} is due in {span(left)}"
        yield Obstacle("retry", message, left, details)
    elif facts.reason in _RETURNED:
        yield Obstacle("returned", f"{_RETURNED[facts.reason]}; it is tried again in {span(left)}", left, details)
    else:
        yield Obstacle("not_due", f"due in {span(left)}", left, details)


#: Why a job came back from a dispatcher or a worker.
_RETURNED = {
    "paused": "its queue was paused when a worker wanted it",
    "limited": "it reached a worker before its limits had been asked",
    "unknown_task": "it reached a worker that doesn't know its task",
    "no_worker": "it reached a worker that doesn't know its task, and no other did",
    "unroutable": "the broker had no queue for its message",
}


def _of_the_queue(facts: Facts) -> Iterator[Obstacle]:
    if facts.paused:
        since = f" since {facts.paused_at:%Y-%m-%d %H:%M:%S}Z" if facts.paused_at else ""
        by = f" by {facts.paused_by}" if facts.paused_by else ""
        note = f": {facts.note}" if facts.note else ""
        details = {"since": facts.paused_at, "by": facts.paused_by, "note": facts.note}
        yield Obstacle("queue_paused", f"queue {facts.queue} is paused{since}{by}{note}", details=details)
    if facts.backs_off_until and facts.backs_off_until > facts.now:
        left = (facts.backs_off_until - facts.now).total_seconds()
        message = f"queue {facts.queue} backs off for {span(left)}: the broker has just returned a message of it"
        yield Obstacle("backing_off", message, left)


def _of_workers(facts: Facts) -> Iterator[Obstacle]:
    serving = facts.serving
    if not serving.workers:
        labels = f"; task {facts.task} requires the labels {', '.join(facts.requires)}" if facts.requires else ""
        yield Obstacle("no_worker", f"no worker that lives serves queue {facts.queue}{labels}")
    elif not serving.knowing:
        some = f"{serving.workers} worker serves" if serving.workers == 1 else f"{serving.workers} workers serve"
        labels = f" and has its labels {', '.join(facts.requires)}" if facts.requires else ""
        yield Obstacle("no_worker", f"{some} queue {facts.queue}, and none knows task {facts.task}{labels}")
    elif not serving.free_slots:
        message = f"all {serving.slots} slots of the workers that serve queue {facts.queue} are taken"
        yield Obstacle("no_slot", message, details={"slots": serving.slots})


def _of_limit(held: HeldLimit) -> Obstacle:
    if held.blocker.limit.circuit is not None:
        return _of_circuit(held)
    limit, key = held.blocker.limit, held.blocker.key
    place = f" for {limit.per} = {key!r}" if limit.per else ""
    details: dict[str, Any] = {"limit": limit.name, "key": key if limit.per else None, "most": limit.most}
    if limit.kind is Kind.RATE:
        rate = f"{limit.most} in {span(limit.period_seconds or 0)}"
        when = "it has room for those that are on their way only"
        if held.free_in:
            when = f"next token in {span(held.free_in)}"
        return Obstacle("rate", f"rate {limit.name} ({rate}){place}: {when}", held.free_in, details)
    details |= {"held": held.held, "held_by": list(held.held_by)}
    by = ", ".join(map(str, held.held_by))
    named = f", held by {by}" + (", …" if held.held > len(held.held_by) else "") if by else ""
    return Obstacle(
        "concurrency", f"limit {limit.name}{place}: {held.held} of {limit.most} slots{named}", None, details
    )


def _of_circuit(held: HeldLimit) -> Obstacle:
    limit = held.blocker.limit
    since = f" since {held.since:%Y-%m-%d %H:%M:%S}Z" if held.since else ""
    cause = f" (last error: {held.cause})" if held.cause else ""
    details: dict[str, Any] = {"circuit": limit.circuit, "since": held.since, "last_error": held.cause}
    if limit.shut_for:
        message = f"circuit {limit.circuit} is open{since}{cause}: it is probed in {span(limit.shut_for)}"
        return Obstacle("circuit_open", message, limit.shut_for, details)
    details |= {"held": held.held, "most": limit.most, "held_by": list(held.held_by)}
    message = (
        f"circuit {limit.circuit} is half open{since}{cause}: {held.held} of {limit.most} jobs that may probe it run"
    )
    return Obstacle("circuit_half_open", message, None, details)


def _of_the_line(facts: Facts) -> Iterator[Obstacle]:
    if facts.state in {State.ENQUEUED, State.ADMITTED}:
        since = f", for {span(facts.now - facts.released_at)}" if facts.released_at else ""
        yield Obstacle(
            "on_its_way", f"it is on its way to the workers{since}", details={"released_at": facts.released_at}
        )
    elif facts.ahead:
        more = "more than " if facts.ahead >= MOST_AHEAD else ""
        count = f"{more}{facts.ahead:,} jobs of queue {facts.queue} are" if facts.ahead > 1 else "one job of it is"
        estimate = facts.ahead / facts.per_second if facts.per_second else None
        about = f", about {span(estimate)}" if estimate is not None else ""
        yield Obstacle("ahead", f"{count} ahead{about}", estimate, {"jobs": facts.ahead})


def span(length: float | timedelta) -> str:
    """A length of time for a person: 0.4 s, 12 s, 3 min 5 s, 2 h 4 min, 3 d 1 h."""
    seconds = length.total_seconds() if isinstance(length, timedelta) else length
    if seconds < 10:
        return f"{max(seconds, 0):.1f} s".replace(".0 s", " s")
    whole = round(seconds)
    for size, unit, lower_size, lower in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // lower_size
            return f"{whole // size} {unit}" + (f" {rest} {lower}" if rest else "")
    return f"{whole} s"
