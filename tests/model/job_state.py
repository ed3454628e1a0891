"""What one job, its messages and those who handle them can be like, and the small changes that steps are made of."""

from __future__ import annotations

from enum import IntEnum, auto
from typing import Any, NamedTuple

from mainspring.domain.states import Event, State

from .checker import Edge, Kind, Step

MAX_ATTEMPTS = 2
#: Copies of one message that a queue keeps.
MOST_COPIES = 2
ONCE_OLD = 1


class Word(IntEnum):
    """A value that is hashed millions of times: as the number that it is, and not by its name."""

    __hash__ = int.__hash__


class Ticket(Word):
    """A message's ticket, or the fence that somebody believes in, seen from the row."""

    NONE = -2
    OLD = -1
    CURRENT = 0
    #: Of a release that isn't committed (yet, or any more).
    NEXT = 1


class Release(Word):
    """Where the scheduler's last release is: its outbox row, or its open transaction."""

    DONE = auto()
    COMMITTED = auto()
    SENT = auto()
    #: Its scheduler died: an outbox row that only a timer finds.
    LEFT = auto()
    OPEN = auto()
    OPEN_SENT = auto()


class Stage(Word):
    """What a worker or the dispatcher does with the message in its hands."""

    IDLE = auto()
    HOLDING = auto()
    #: Dispatcher: admitted, not sent on. Worker: claimed and told so, its handler runs.
    AT_WORK = auto()
    #: Worker: claimed, and the reply was lost.
    ASKING = auto()
    #: Worker: settled as a failure; the ladder's message isn't sent.
    FAILED = auto()
    #: Redundant: only the acknowledgement is left.
    FINISHED = auto()


class Hand(NamedTuple):
    """A worker or the dispatcher: the message held, and the fence believed (dispatcher: the ticket to send on)."""

    stage: Stage = Stage.IDLE
    ticket: Ticket = Ticket.NONE
    belief: Ticket = Ticket.NONE


class Row(NamedTuple):
    """The job's row, without what its fence is."""

    state: State = State.SCHEDULED
    used: int = 0
    is_due: bool = True
    cancel_requested: bool = False


class Left(NamedTuple):
    """What may still happen in this run."""

    faults: int
    cancels: int
    redrives: int


Messages = tuple[Ticket, ...]
EMPTY: Messages = ()
NOBODY = Hand()


class World(NamedTuple):
    """Everything. ``started`` and ``completions`` are what really happened, for the judge alone."""

    left: Left
    row: Row = Row()
    release: Release = Release.DONE
    #: The ticket of the release's outbox row.
    outbox: Ticket = Ticket.NONE
    due: Messages = EMPTY
    work: Messages = EMPTY
    ladder: Messages = EMPTY
    dispatcher: Hand = NOBODY
    workers: tuple[Hand, Hand] = (NOBODY, NOBODY)
    is_wiped: bool = False
    started: int = 0
    completions: int = 0


_OLDER = {
    Ticket.NONE: Ticket.NONE,
    Ticket.OLD: Ticket.OLD,
    Ticket.CURRENT: Ticket.OLD,
    Ticket.NEXT: Ticket.CURRENT,
}
_YOUNGER = _OLDER | {Ticket.CURRENT: Ticket.NEXT, Ticket.NEXT: Ticket.NEXT}


def put(messages: Messages, ticket: Ticket) -> Messages:
    """One more message, unless enough are alike."""
    most = ONCE_OLD if ticket is Ticket.OLD else MOST_COPIES
    return tuple(sorted((*messages, ticket))) if messages.count(ticket) < most else messages


def take(messages: Messages, ticket: Ticket) -> Messages:
    """One message less."""
    at = messages.index(ticket)
    return messages[:at] + messages[at + 1 :]


def _renamed(messages: Messages, names: dict[Ticket, Ticket]) -> Messages:
    renamed = EMPTY
    for ticket in messages:
        renamed = put(renamed, names[ticket])
    return renamed


def _in_hand(hand: Hand, names: dict[Ticket, Ticket]) -> Hand:
    return hand if hand is NOBODY else Hand(hand.stage, names[hand.ticket], names[hand.belief])


def _seen_anew(world: World, names: dict[Ticket, Ticket]) -> World:
    return world._replace(
        outbox=names[world.outbox],
        due=_renamed(world.due, names),
        work=_renamed(world.work, names),
        ladder=_renamed(world.ladder, names),
        dispatcher=_in_hand(world.dispatcher, names),
        workers=(_in_hand(world.workers[0], names), _in_hand(world.workers[1], names)),
    )


def change(world: World, state: State, **columns: Any) -> World:
    """The row changes its state, which raises its fence: every ticket and belief grows older by one."""
    older = _seen_anew(world, _OLDER)
    return older._replace(row=older.row._replace(state=state, **columns))


def unrelease(world: World) -> World:
    """A crash of Postgres loses the last release with its outbox row: the fence is what it was before."""
    younger = _seen_anew(world, _YOUNGER)
    return younger._replace(row=younger.row._replace(state=State.SCHEDULED), release=Release.DONE, outbox=Ticket.NONE)


def with_worker(world: World, number: int, hand: Hand) -> World:
    """The world with another ``hand`` for worker ``number``."""
    first, second = world.workers
    return world._replace(workers=(hand, second) if number == 0 else (first, hand))


def in_order(world: World) -> World:
    """The same world with its workers in order, for they are alike."""
    first, second = world.workers
    return world if first <= second else world._replace(workers=(second, first))


def is_on_its_way(world: World) -> bool:
    """True while some message of the current ticket is still to be acted upon, or to be sent."""
    current = Ticket.CURRENT
    queues = current in world.due or current in world.work or current in world.ladder
    unsent = world.outbox is current and world.release in (Release.COMMITTED, Release.LEFT)
    dispatched = world.dispatcher.stage is Stage.HOLDING and world.dispatcher.ticket is current
    admitted = world.dispatcher.stage is Stage.AT_WORK and world.dispatcher.belief is current
    held = any(
        (one.stage is Stage.HOLDING and one.ticket is current) or (one.stage is Stage.FAILED and one.belief is current)
        for one in world.workers
    )
    return queues or unsent or dispatched or admitted or held


def fault(world: World) -> World:
    """One fault less is left."""
    return world._replace(left=world.left._replace(faults=world.left.faults - 1))


def step(label: str, after: World, kind: Kind = Kind.NORMAL, wrong: str | None = None) -> Step[World]:
    """A step that leaves the row's state alone."""
    return Step(label, kind, in_order(after), None, wrong)


def turn(
    label: str, event: Event, before: World, after: World, kind: Kind = Kind.NORMAL, wrong: str | None = None
) -> Step[World]:
    """A step that changes the row's state by ``event``."""
    return Step(label, kind, in_order(after), Edge(event, before.row.state, after.row.state), wrong)
