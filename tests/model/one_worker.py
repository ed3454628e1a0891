"""A worker's steps: receive, claim, run, settle, hand over, hand back; and the end of a lease."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mainspring.domain.states import Event, State, sources_of

from .checker import Kind, Step
from .job_state import (
    MAX_ATTEMPTS,
    NOBODY,
    Hand,
    Release,
    Stage,
    Ticket,
    World,
    change,
    fault,
    put,
    step,
    take,
    turn,
    with_worker,
)
from .mechanisms import Mechanisms

CLAIMABLE = sources_of(Event.CLAIM)
Steps = Iterator[Step[World]]

UNADMITTED = "a stale message claims a release that nobody has let through"
TOO_EARLY = "a stale message claims a retry before its delay is over"
STALE_WRITE = "a write of an earlier attempt changes the row"


def worker(world: World, number: int, parts: Mechanisms) -> Steps:
    """All that worker ``number`` can do."""
    hand = world.workers[number]
    match hand.stage:
        case Stage.IDLE:
            for ticket in set(world.work):
                taken = world._replace(work=take(world.work, ticket))
                yield step("a worker receives", with_worker(taken, number, Hand(Stage.HOLDING, ticket)))
        case Stage.HOLDING:
            yield from _claim(world, number, parts)
        case Stage.ASKING:
            yield _ask_again(world, number, parts)
        case Stage.AT_WORK:
            yield from _run(world, number, parts)
        case Stage.FAILED:
            sent = world._replace(ladder=put(world.ladder, hand.belief))
            yield step("the retry goes to the ladder", with_worker(sent, number, Hand(Stage.FINISHED, hand.ticket)))
        case Stage.FINISHED:
            yield step("the worker acknowledges", with_worker(world, number, NOBODY))
    if hand.stage is not Stage.IDLE and world.left.faults:
        yield from _trouble(world, number)


def _claim(world: World, number: int, parts: Mechanisms) -> Steps:
    row, ticket = world.row, world.workers[number].ticket
    is_locked = world.release in (Release.OPEN, Release.OPEN_SENT)
    if is_locked and parts.tickets:
        return  # the claim waits for the row's lock
    if is_locked or not _is_claimable(world, ticket, parts):
        yield step("not claimed: the message is dropped", with_worker(world, number, NOBODY))
        return
    wrong = None
    if ticket is not Ticket.CURRENT:
        wrong = TOO_EARLY if row.state is State.RETRYING and not row.is_due else UNADMITTED
    running = change(world, State.RUNNING, used=row.used + 1)
    held = running.workers[number].ticket
    started = with_worker(
        running._replace(started=world.started + 1), number, Hand(Stage.AT_WORK, held, Ticket.CURRENT)
    )
    yield turn("the worker claims, its handler starts", Event.CLAIM, world, started, wrong=wrong)
    if world.left.faults:
        unheard = fault(with_worker(running, number, Hand(Stage.ASKING, held, Ticket.CURRENT)))
        yield turn("the worker claims, and the reply is lost", Event.CLAIM, world, unheard, Kind.FAULT, wrong)


def _is_claimable(world: World, ticket: Ticket, parts: Mechanisms) -> bool:
    row = world.row
    if parts.tickets:
        return ticket is Ticket.CURRENT and row.state in CLAIMABLE
    is_in_time = row.state is not State.RETRYING or row.is_due or not parts.due_guard
    return row.state in CLAIMABLE and is_in_time


def _ask_again(world: World, number: int, parts: Mechanisms) -> Step[World]:
    hand = world.workers[number]
    if parts.claim_id and _owns(world, hand):
        told = with_worker(world, number, hand._replace(stage=Stage.AT_WORK))
        return step("the claim is asked for again, its handler starts", told._replace(started=world.started + 1))
    return step("the claim is asked for again: nothing", with_worker(world, number, NOBODY))


def _owns(world: World, hand: Hand) -> bool:
    return world.row.state is State.RUNNING and hand.belief is Ticket.CURRENT


def _run(world: World, number: int, parts: Mechanisms) -> Steps:
    row, hand = world.row, world.workers[number]
    is_running = row.state is State.RUNNING and world.release not in (Release.OPEN, Release.OPEN_SENT)
    if not is_running or not (_owns(world, hand) or not parts.fence):
        refused = with_worker(world, number, Hand(Stage.FINISHED, hand.ticket))
        yield step("its write is refused, the handler stops", refused)
        return
    wrong = None if _owns(world, hand) else STALE_WRITE

    def settled(state: State, stage: Stage = Stage.FINISHED, **columns: Any) -> World:
        after = change(world, state, cancel_requested=False, **columns)
        belief = Ticket.CURRENT if stage is Stage.FAILED else Ticket.NONE
        return with_worker(after, number, Hand(stage, after.workers[number].ticket, belief))

    done = settled(State.SUCCEEDED)._replace(completions=world.completions + 1)
    yield turn("the worker completes", Event.SUCCEED, world, done, wrong=wrong)
    if row.cancel_requested:
        yield turn("the handler stops, cancelled", Event.STOP, world, settled(State.CANCELLED), wrong=wrong)
    elif row.used >= MAX_ATTEMPTS:
        yield turn("the last attempt fails", Event.BURY, world, settled(State.DEAD), wrong=wrong)
    else:
        retried = settled(State.RETRYING, Stage.FAILED, is_due=False)
        yield turn("the attempt fails", Event.RETRY, world, retried, wrong=wrong)
        later = settled(State.SCHEDULED, is_due=False)
        yield turn("the attempt fails, its delay is long", Event.RETRY, world, later, wrong=wrong)
    if hand.ticket is not Ticket.NONE:
        yield step(
            "the message is handed over to the lease", with_worker(world, number, hand._replace(ticket=Ticket.NONE))
        )
    if world.left.faults and not row.cancel_requested:
        yield _hand_back(world, number, parts, wrong)


def _hand_back(world: World, number: int, parts: Mechanisms, wrong: str | None) -> Step[World]:
    """Asked to stop, the worker gives the job back; the attempt doesn't count."""
    used = world.row.used - 1 if parts.free_hand_back else world.row.used
    after = change(world._replace(started=world.started - 1), State.SCHEDULED, used=used, is_due=True)
    stopped = with_worker(after, number, Hand(Stage.FINISHED, after.workers[number].ticket))
    label = "the worker stops and hands the job back"
    return turn(label, Event.HAND_BACK, world, fault(stopped), Kind.FAULT, wrong)


def _trouble(world: World, number: int) -> Steps:
    hand = world.workers[number]
    if hand.stage is Stage.HOLDING:
        again = world._replace(work=put(world.work, hand.ticket))
        stopped = with_worker(again, number, Hand(Stage.FINISHED, hand.ticket))
        yield step("the worker stops, and sends again what it holds", fault(stopped), Kind.FAULT)
    returned = world
    if hand.ticket is not Ticket.NONE:
        returned = world._replace(work=put(world.work, hand.ticket))
    if hand.stage is Stage.ASKING and _owns(world, hand):
        # Whoever dies with a claim loses an attempt, whether its handler had begun or not.
        returned = returned._replace(started=world.started + 1)
    yield step("the worker dies, its message returns", fault(with_worker(returned, number, NOBODY)), Kind.FAULT)


def end_lease(world: World, parts: Mechanisms) -> Steps:
    """The lease of a running job ends, and a scheduler settles it: as a fault while its worker lives, else in time."""
    if world.row.state is not State.RUNNING or world.release in (Release.OPEN, Release.OPEN_SENT):
        return
    owner = next((number for number in (0, 1) if _owns(world, world.workers[number])), None)
    if owner is None:
        yield from _reclaim(world, Kind.TIMER, "the lease ends")
        return
    hand = world.workers[owner]
    if hand.stage is Stage.ASKING and not parts.claim_id:
        yield from _reclaim(world, Kind.TIMER, "the lease ends")
    elif hand.stage is Stage.AT_WORK and world.left.faults:
        if parts.trust_window:
            world = with_worker(world, owner, Hand(Stage.FINISHED, hand.ticket))
        yield from _reclaim(fault(world), Kind.FAULT, "its supervisor stands still, the lease ends")


def _reclaim(world: World, kind: Kind, label: str) -> Steps:
    row = world.row
    if row.cancel_requested:
        yield turn(label, Event.STOP, world, change(world, State.CANCELLED, cancel_requested=False), kind)
    elif row.used >= MAX_ATTEMPTS:
        yield turn(label, Event.BURY, world, change(world, State.DEAD), kind)
    else:
        after = change(world, State.RETRYING, is_due=False)
        sent = after._replace(ladder=put(after.ladder, Ticket.CURRENT))
        yield turn(label, Event.RETRY, world, sent, kind)
        if world.left.faults:
            yield turn(f"{label}, and the retry isn't sent", Event.RETRY, world, fault(after), Kind.FAULT)
