"""Everything that exists in the broker, as data.

Queue arguments can't change in place, so names carry a version: a release that needs other arguments
counts VERSION up, declares new queues beside the old ones and lets the epoch change bring every waiting
job over from its row. Only features that RabbitMQ 3.10 to 4.x share: durable quorum queues with an
explicit delivery limit and a dead-letter target.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mainspring.broker import delay_ladder

VERSION = 1
DUE = f"mainspring.due.v{VERSION}"
WORK = f"mainspring.work.v{VERSION}"
DEAD = f"mainspring.dead.v{VERSION}"
PARKED = f"mainspring.parked.v{VERSION}"
DEAD_QUEUE = DEAD
PARKED_QUEUE = PARKED
#: Returns after which the broker sets a message aside. Attempts are counted in Postgres, not here.
DELIVERY_LIMIT = 20


#: The arguments of a queue that nobody consumes.
_UNREAD = {"x-queue-type": "quorum", "x-delivery-limit": DELIVERY_LIMIT}


@dataclass(frozen=True, slots=True)
class Exchange:
    """A durable exchange."""

    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class Queue:
    """A durable queue and its arguments."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Binding:
    """``source`` routes ``key`` to a queue, or to another exchange."""

    source: str
    key: str
    target: str
    to_exchange: bool = False


@dataclass(frozen=True, slots=True)
class Topology:
    """A set of things to declare, in this order."""

    exchanges: tuple[Exchange, ...] = ()
    queues: tuple[Queue, ...] = ()
    bindings: tuple[Binding, ...] = ()


def due_queue(queue: str) -> str:
    """The broker's queue for due batches of ``queue``."""
    return f"mainspring.due.v{VERSION}.{queue}"


def work_queue(queue: str) -> str:
    """The broker's queue that workers of ``queue`` consume."""
    return f"mainspring.work.v{VERSION}.{queue}"


def delay_exchange(level: int) -> str:
    """The exchange at a level of the delay ladder; below level 0 it is the due exchange."""
    return f"mainspring.delay.v{VERSION}.{level}" if level >= 0 else DUE


def delay_queue(level: int) -> str:
    """The queue in which messages of a level wait."""
    return f"mainspring.delay.v{VERSION}.{level}"


def epoch_queue(epoch: str) -> Queue:
    """The queue whose absence says that the broker has forgotten: it is named by the epoch in Postgres."""
    # On as many nodes as any other: one node's loss must not look like the loss of the broker's memory.
    return Queue(f"mainspring.epoch.v{VERSION}.{epoch}", dict(_UNREAD))


def holds_hints(name: str) -> bool:
    """True for a queue whose messages can be made again from rows: due, work, and the delay ladder's."""
    kinds = ("due", "work", "delay")
    return any(name.startswith(f"mainspring.{kind}.v{VERSION}.") for kind in kinds)


def _quorum(name: str, dead_letters_to: str, key: str | None, **extra: Any) -> Queue:
    arguments = {
        "x-queue-type": "quorum",
        "x-delivery-limit": DELIVERY_LIMIT,
        "x-dead-letter-exchange": dead_letters_to,
        # A message is never lost between two queues; this strategy needs the overflow setting.
        "x-dead-letter-strategy": "at-least-once",
        "x-overflow": "reject-publish",
    }
    key_argument = {"x-dead-letter-routing-key": key} if key is not None else {}
    return Queue(name, arguments | key_argument | {name.replace("_", "-"): value for name, value in extra.items()})


def _ladder() -> Topology:
    levels = range(delay_ladder.LEVELS)
    ttl = delay_ladder.TICK.total_seconds() * 1000
    return Topology(
        exchanges=tuple(Exchange(delay_exchange(level), "topic") for level in levels),
        queues=tuple(
            _quorum(delay_queue(level), delay_exchange(level - 1), None, x_message_ttl=int(ttl * 2**level))
            for level in levels
        ),
        bindings=tuple(
            binding
            for level in levels
            for binding in (
                Binding(delay_exchange(level), delay_ladder.wait_pattern(level), delay_queue(level)),
                Binding(
                    delay_exchange(level),
                    delay_ladder.pass_pattern(level),
                    delay_exchange(level - 1),
                    to_exchange=True,
                ),
            )
        ),
    )


def fixed() -> Topology:
    """What exists once, whatever the queues: exchanges, dead letters, the delay ladder."""
    ladder = _ladder()
    return Topology(
        exchanges=(
            Exchange(DUE, "topic"),
            Exchange(WORK, "direct"),
            Exchange(DEAD, "fanout"),
            Exchange(PARKED, "fanout"),
            *ladder.exchanges,
        ),
        queues=(
            _quorum(DEAD_QUEUE, PARKED, None),
            # The end of the line: kept until a person looks. Nothing consumes it, so nothing returns.
            Queue(PARKED_QUEUE, dict(_UNREAD)),
            *ladder.queues,
        ),
        bindings=(Binding(DEAD, "", DEAD_QUEUE), Binding(PARKED, "", PARKED_QUEUE), *ladder.bindings),
    )


def for_queue(queue: str) -> Topology:
    """The due and work queues of one Mainspring queue."""
    due = _quorum(due_queue(queue), DEAD, queue, x_single_active_consumer=True)
    work = _quorum(work_queue(queue), DEAD, queue)
    return Topology(
        queues=(due, work),
        bindings=(
            Binding(DUE, delay_ladder.arrival_pattern(queue), due.name),
            Binding(WORK, queue, work.name),
        ),
    )
