"""One job under the protocol: each function yields the steps that one party can take from a state of the world."""

from __future__ import annotations

from collections.abc import Iterator

from mainspring.domain.states import Event, State, sources_of

from .checker import Kind, Machine, Step
from .job_state import (
    MAX_ATTEMPTS,
    MOST_COPIES,
    NOBODY,
    Hand,
    Left,
    Release,
    Row,
    Stage,
    Ticket,
    World,
    change,
    fault,
    is_on_its_way,
    put,
    step,
    take,
    turn,
    unrelease,
)
from .mechanisms import Mechanisms, Scope
from .one_worker import end_lease, worker

Steps = Iterator[Step[World]]
ADMISSIBLE = sources_of(Event.ADMIT)
CANCELLABLE = sources_of(Event.CANCEL)
FORGOTTEN = sources_of(Event.RECONCILE)
REDRIVABLE = sources_of(Event.REDRIVE)
EDITABLE = sources_of(Event.EDIT)
OPEN = (Release.OPEN, Release.OPEN_SENT)

COMPLETED_TWICE = "its effect is complete twice"
OVER_BUDGET = "more attempts than its budget"
BURNT = "an attempt is used up that never ran, or was handed back"
TWO_HANDLERS = "two handlers of the job run at once"
SLOT_FREED = "the job has ended, and its handler runs on"


def scheduler(world: World, parts: Mechanisms) -> Steps:
    """Release, publish, forget; and what becomes of it when the scheduler or Postgres dies."""
    row, release = world.row, world.release
    if row.state is State.SCHEDULED and row.is_due and release in (Release.DONE, Release.SENT):
        if parts.commit_first:
            after = change(world, State.ENQUEUED)._replace(release=Release.COMMITTED, outbox=Ticket.CURRENT)
            yield turn("the release commits", Event.RELEASE, world, after)
        else:
            yield step("the release opens its transaction", world._replace(release=Release.OPEN, outbox=Ticket.NEXT))
    if release in (Release.COMMITTED, Release.OPEN):
        sent = Release.SENT if release is Release.COMMITTED else Release.OPEN_SENT
        yield step("the release publishes", world._replace(release=sent, due=put(world.due, world.outbox)))
    if release is Release.SENT:
        yield step("the outbox row is deleted", world._replace(release=Release.DONE, outbox=Ticket.NONE))
    if release is Release.OPEN_SENT:
        after = change(world, State.ENQUEUED)._replace(release=Release.DONE, outbox=Ticket.NONE)
        yield turn("the release commits", Event.RELEASE, world, after)
    if world.left.faults:
        yield from _scheduler_dies(world, parts)
        if row.state is State.ENQUEUED and parts.commit_first:
            # Its commit doesn't wait for the disk. No edge: the row is as if it had never been released.
            yield step("Postgres dies and forgets the release", fault(unrelease(world)), Kind.FAULT)


def _scheduler_dies(world: World, parts: Mechanisms) -> Steps:
    if world.release in (Release.COMMITTED, Release.SENT):
        left = world._replace(release=Release.LEFT)
        if not parts.outbox:
            left = world._replace(release=Release.DONE, outbox=Ticket.NONE)
        yield step("the scheduler dies", fault(left), Kind.FAULT)
    if world.release in OPEN:
        rolled_back = world._replace(release=Release.DONE, outbox=Ticket.NONE)
        yield step("the scheduler dies, its release is rolled back", fault(rolled_back), Kind.FAULT)


def clocks(world: World, scope: Scope) -> Steps:
    """Delays pass, and the ladder brings its messages to the due queue."""
    row = world.row
    if not row.is_due and row.state in (State.SCHEDULED, State.RETRYING):
        yield step("the delay passes", world._replace(row=row._replace(is_due=True)))
    for ticket in set(world.ladder):
        if row.is_due or scope.is_ladder_early or ticket is Ticket.OLD:
            after = world._replace(ladder=take(world.ladder, ticket), due=put(world.due, ticket))
            yield step("a message leaves the ladder", after)


def recovery(world: World, parts: Mechanisms) -> Steps:
    """What any scheduler finds from the rows: left outbox rows, lost messages, an epoch's end."""
    row = world.row
    if world.release is Release.LEFT:
        after = world._replace(release=Release.SENT, due=put(world.due, world.outbox))
        yield step("another scheduler publishes the outbox row", after, Kind.TIMER)
    if not parts.reconcile or world.release in OPEN:
        return
    if not is_on_its_way(world):
        yield from _look_for_message(world, Kind.TIMER)
    elif world.left.faults:
        # Slow, and not lost: what the timer does then is a disturbance like any other.
        yield from _look_for_message(fault(world), Kind.FAULT)
    if world.is_wiped and row.state in FORGOTTEN:
        after = change(world, State.SCHEDULED)._replace(is_wiped=False)
        yield turn("a new epoch: scheduled again", Event.RECONCILE, world, after, Kind.TIMER)
    elif world.is_wiped:
        yield step("a new epoch", world._replace(is_wiped=False), Kind.TIMER)


def _look_for_message(world: World, kind: Kind) -> Steps:
    row = world.row
    if row.state is State.ENQUEUED and world.due.count(Ticket.CURRENT) < MOST_COPIES:
        yield step("unclaimed: sent again", world._replace(due=put(world.due, Ticket.CURRENT)), kind)
    if row.state is State.ADMITTED and world.work.count(Ticket.CURRENT) < MOST_COPIES:
        yield step("unclaimed: sent again", world._replace(work=put(world.work, Ticket.CURRENT)), kind)
    if row.state is State.RETRYING and row.is_due:
        after = change(world, State.SCHEDULED)
        yield turn("the ladder didn't bring it: scheduled", Event.RESCHEDULE, world, after, kind)


def dispatcher(world: World, parts: Mechanisms, scope: Scope) -> Steps:
    """From the due queue to the work queue, by an admission where the queue has a limit."""
    stage, ticket, going = world.dispatcher
    if stage is Stage.IDLE:
        for one in set(world.due):
            taken = world._replace(due=take(world.due, one), dispatcher=Hand(Stage.HOLDING, one))
            yield step("the dispatcher receives", taken)
        return
    if stage is Stage.HOLDING and not scope.is_limited:
        sent = world._replace(work=put(world.work, ticket), dispatcher=Hand(Stage.FINISHED, ticket))
        yield step("the dispatcher sends it on", sent)
    elif stage is Stage.HOLDING:
        yield from _admit(world, parts)
    elif stage is Stage.AT_WORK:
        sent = world._replace(work=put(world.work, going), dispatcher=Hand(Stage.FINISHED, ticket))
        yield step("the dispatcher sends it on under its new ticket", sent)
    else:
        yield step("the dispatcher acknowledges", world._replace(dispatcher=NOBODY))
    if world.left.faults:
        returned = world._replace(due=put(world.due, ticket), dispatcher=NOBODY)
        yield step("the dispatcher dies, its message returns", fault(returned), Kind.FAULT)


def _admit(world: World, parts: Mechanisms) -> Steps:
    ticket = world.dispatcher.ticket
    is_current = ticket is Ticket.CURRENT or not parts.tickets
    if is_current and world.row.state in ADMISSIBLE:
        after = change(world, State.ADMITTED)
        after = after._replace(dispatcher=Hand(Stage.AT_WORK, after.dispatcher.ticket, Ticket.CURRENT))
        yield turn("the dispatcher admits", Event.ADMIT, world, after)
    else:
        yield step("the dispatcher finds a stale ticket", world._replace(dispatcher=NOBODY))


def broker(world: World) -> Steps:
    """It may lose everything: what is in a hand can't be acknowledged any more."""
    held = (world.dispatcher, *world.workers)
    if world.left.faults and (
        world.due or world.work or world.ladder or any(one.ticket != Ticket.NONE for one in held)
    ):
        first, second = (_without_message(one) for one in world.workers)
        wiped = world._replace(due=(), work=(), ladder=(), dispatcher=NOBODY, workers=(first, second), is_wiped=True)
        yield step("the broker is wiped", fault(wiped), Kind.FAULT)


def _without_message(hand: Hand) -> Hand:
    return NOBODY if hand.stage in (Stage.IDLE, Stage.HOLDING, Stage.FINISHED) else hand._replace(ticket=Ticket.NONE)


def people(world: World, parts: Mechanisms) -> Steps:
    """Somebody cancels, changes or redrives."""
    row, left = world.row, world.left
    if left.cancels and world.release not in OPEN:
        spent = world._replace(left=left._replace(cancels=left.cancels - 1))
        if row.state in EDITABLE:
            yield turn("a person changes it", Event.EDIT, world, change(spent, State.SCHEDULED), Kind.PERSON)
        if row.state in CANCELLABLE:
            yield turn("a person cancels", Event.CANCEL, world, change(spent, State.CANCELLED), Kind.PERSON)
        elif row.state is State.RUNNING and parts.cancel_request:
            asked = spent._replace(row=row._replace(cancel_requested=True))
            yield step("a person cancels the running job", asked, Kind.PERSON)
        elif row.state is State.RUNNING:
            yield turn(
                "a person cancels the running job", Event.STOP, world, change(spent, State.CANCELLED), Kind.PERSON
            )
    if left.redrives and row.state in REDRIVABLE:
        spent = world._replace(left=left._replace(redrives=left.redrives - 1), started=0)
        after = change(spent, State.SCHEDULED, used=0, is_due=True, cancel_requested=False)
        yield turn("a person redrives", Event.REDRIVE, world, after, Kind.PERSON)


def wrong(world: World) -> str | None:
    """The safety property that a state breaks."""
    running = sum(hand.stage is Stage.AT_WORK for hand in world.workers)
    if world.completions > 1:
        return COMPLETED_TWICE
    if world.row.used > MAX_ATTEMPTS:
        return OVER_BUDGET
    if world.row.state is not State.RUNNING and world.row.used > world.started:
        return BURNT
    if running > 1:
        return TWO_HANDLERS
    return SLOT_FREED if running and world.row.state is State.CANCELLED else None


def machine(parts: Mechanisms, scope: Scope) -> Machine[World]:
    """The whole, with ``parts`` in and as much trouble as ``scope`` says."""

    def steps(world: World) -> Steps:
        yield from scheduler(world, parts)
        yield from clocks(world, scope)
        yield from recovery(world, parts)
        yield from dispatcher(world, parts, scope)
        yield from worker(world, 0, parts)
        if world.workers[0] != world.workers[1]:
            yield from worker(world, 1, parts)
        if parts.reclaim:
            yield from end_lease(world, parts)
        yield from broker(world)
        yield from people(world, parts)

    first = World(Left(scope.faults, scope.cancels, scope.redrives), Row())
    return Machine(first, steps, wrong, lambda world: world.row.state.is_final)
