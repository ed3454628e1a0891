"""The state machine of a job: one table, and nothing else decides which change is allowed.

Each transition is one guarded SQL statement in the store; a test runs every statement against a row in
every state and compares what happened with this table. docs/state-machine.md is generated from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """Where a job is. The last three are final."""

    SCHEDULED = "scheduled"
    BLOCKED = "blocked"
    ENQUEUED = "enqueued"
    ADMITTED = "admitted"
    RUNNING = "running"
    RETRYING = "retrying"
    SUCCEEDED = "succeeded"
    CANCELLED = "cancelled"
    DEAD = "dead"

    @property
    def is_final(self) -> bool:
        """True for a state that only a person's redrive can leave."""
        return self in FINAL


class Event(StrEnum):
    """What happens to a job."""

    RELEASE = "release"
    JOIN = "join"
    ADMIT = "admit"
    BLOCK = "block"
    RETURN = "return"
    CLAIM = "claim"
    LIMIT = "limit"
    SUCCEED = "succeed"
    RETRY = "retry"
    BURY = "bury"
    HAND_BACK = "hand_back"
    EXPIRE = "expire"
    DUPLICATE = "duplicate"
    RESCHEDULE = "reschedule"
    RECONCILE = "reconcile"
    EDIT = "edit"
    CANCEL = "cancel"
    STOP = "stop"
    REDRIVE = "redrive"
    DISCARD = "discard"


class Reason(StrEnum):
    """Why a job is dead."""

    EXHAUSTED = "exhausted"
    PERMANENT = "permanent"
    EXPIRED = "expired"
    DISCARDED = "discarded"


class Outcome(StrEnum):
    """How an attempt ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    WORKER_LOST = "worker_lost"
    CANCELLED = "cancelled"
    HANDED_BACK = "handed_back"
    SNOOZED = "snoozed"


@dataclass(frozen=True, slots=True)
class Transition:
    """One row of the table: from any of ``sources``, ``event`` leads to ``target``."""

    event: Event
    sources: frozenset[State]
    target: State
    when: str = ""


FINAL = frozenset({State.SUCCEEDED, State.CANCELLED, State.DEAD})
WAITING = frozenset({State.SCHEDULED, State.BLOCKED, State.ENQUEUED, State.ADMITTED, State.RETRYING})
IN_BROKER = frozenset({State.ENQUEUED, State.ADMITTED, State.RETRYING})
HOLDS_SLOT = frozenset({State.ADMITTED, State.RUNNING})
REDRIVABLE = frozenset({State.DEAD, State.CANCELLED})


def _row(event: Event, sources: frozenset[State] | State, target: State, when: str = "") -> Transition:
    return Transition(event, frozenset({sources}) if isinstance(sources, State) else sources, target, when)


TRANSITIONS: tuple[Transition, ...] = (
    _row(
        Event.RELEASE,
        frozenset({State.SCHEDULED, State.BLOCKED}),
        State.ENQUEUED,
        "due, and its limits have room",
    ),
    _row(
        Event.RELEASE,
        frozenset({State.SCHEDULED, State.BLOCKED}),
        State.ADMITTED,
        "likewise, in a queue with lines: under the locks of its limits",
    ),
    _row(
        Event.JOIN,
        frozenset({State.SCHEDULED, State.BLOCKED}),
        State.BLOCKED,
        "due, and its limits have no room, or others have their turn",
    ),
    # A retry leaves the ladder through the due queue, so its limits are judged again there.
    _row(Event.ADMIT, frozenset({State.ENQUEUED, State.RETRYING}), State.ADMITTED, "its limits have room"),
    _row(Event.BLOCK, frozenset({State.ENQUEUED, State.RETRYING}), State.BLOCKED, "a limit is full"),
    _row(Event.RETURN, IN_BROKER, State.SCHEDULED, "paused, not admitted, or the task is unknown to the worker"),
    _row(Event.CLAIM, IN_BROKER, State.RUNNING, "a worker has a free slot"),
    _row(Event.LIMIT, IN_BROKER, State.BLOCKED, "a worker has a free slot, and a rate no token or its circuit is open"),
    _row(Event.SUCCEED, State.RUNNING, State.SUCCEEDED, "the handler returned"),
    _row(Event.RETRY, State.RUNNING, State.RETRYING, "it failed, and budget is left"),
    _row(Event.RETRY, State.RUNNING, State.SCHEDULED, "the delay is over 15 minutes"),
    _row(Event.BURY, State.RUNNING, State.DEAD, "permanent failure, or the budget is used up"),
    _row(
        Event.HAND_BACK,
        State.RUNNING,
        State.SCHEDULED,
        "the worker stops, the handler snoozed, or it failed while its circuit isn't closed",
    ),
    _row(Event.EXPIRE, WAITING, State.DEAD, "not started by its expiry"),
    _row(Event.DUPLICATE, IN_BROKER, State.SUCCEEDED, "its idempotency key is already complete"),
    _row(Event.RESCHEDULE, State.RETRYING, State.SCHEDULED, "its ladder message is missing at due_at + 5 s"),
    _row(Event.RECONCILE, IN_BROKER, State.SCHEDULED, "the broker lost its messages"),
    _row(Event.EDIT, WAITING, State.SCHEDULED, "a person changed its priority, time or payload"),
    _row(Event.CANCEL, WAITING, State.CANCELLED, "a person asked, or the strategy of a full limit"),
    _row(Event.STOP, State.RUNNING, State.CANCELLED, "a cancel was requested, and the handler stopped"),
    _row(Event.REDRIVE, REDRIVABLE, State.SCHEDULED, "a person asked"),
    _row(Event.DISCARD, State.DEAD, State.DEAD, "a person asked; it is no dead letter any more"),
)


def sources_of(event: Event) -> frozenset[State]:
    """Every state that ``event`` may find a job in."""
    return frozenset().union(*(row.sources for row in TRANSITIONS if row.event is event))


def targets_of(event: Event, source: State) -> frozenset[State]:
    """Every state that ``event`` may lead to from ``source``; empty when it isn't allowed."""
    return frozenset(row.target for row in TRANSITIONS if row.event is event and source in row.sources)


def _edges() -> Iterator[str]:
    yield "    [*] --> scheduled: submit, fire"
    for row in TRANSITIONS:
        for source in sorted(row.sources):
            yield f"    {source} --> {row.target}: {row.event}"
    for state in sorted(FINAL):
        yield f"    {state} --> [*]"


def as_markdown() -> str:
    """The page docs/state-machine.md: a Mermaid diagram and the table behind it."""
    table = [f"| {', '.join(sorted(row.sources))} | {row.event} | {row.target} | {row.when} |" for row in TRANSITIONS]
    return "\n".join(
        [
            "# The state machine of a job",
            "",
            "Generated from `mainspring.domain.states` (`make docs`); a test keeps the two equal.",
            "",
            "```mermaid",
            "stateDiagram-v2",
            *_edges(),
            "```",
            "",
            "| from | event | to | when |",
            "| --- | --- | --- | --- |",
            *table,
            "",
            "Every change of state raises the job's fence by one. `succeeded`, `cancelled` and `dead` are final;",
            "`dead` and `cancelled` can be left by a person's redrive alone.",
            "",
        ]
    )
