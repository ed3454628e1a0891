"""Two jobs that share a concurrency limit of one, and two dispatchers of which one may stand still as it decides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from mainspring.domain.states import HOLDS_SLOT, Event, State, sources_of

from .checker import Edge, Kind, Machine, Step
from .mechanisms import Mechanisms, Scope

EXCEEDED = "more jobs run than the limit allows"
ADMISSIBLE = sources_of(Event.ADMIT)


class Decision(NamedTuple):
    """What a dispatcher has read, and not written yet."""

    number: int
    verdict: State


class Shared(NamedTuple):
    """Both jobs, and who is about to change them."""

    jobs: tuple[State, State]
    decisions: tuple[Decision | None, Decision | None]
    faults: int
    #: The dispatcher that consumes the due queue.
    active: int = 0
    #: A completion has been announced to the promoter.
    is_announced: bool = False
    #: Failures that are left.
    failures: int = 1


Steps = Iterator[Step[Shared]]


def _moved(shared: Shared, number: int, state: State) -> Shared:
    first, second = shared.jobs
    return shared._replace(jobs=(state, second) if number == 0 else (first, state))


def _turn(label: str, event: Event, shared: Shared, number: int, state: State) -> Step[Shared]:
    edge = Edge(event, shared.jobs[number], state)
    return Step(f"job {number}: {label}", Kind.NORMAL, _moved(shared, number, state), edge)


def _verdict(shared: Shared) -> State:
    return State.BLOCKED if any(state in HOLDS_SLOT for state in shared.jobs) else State.ADMITTED


def _write(shared: Shared, number: int, verdict: State) -> Step[Shared]:
    event = Event.ADMIT if verdict is State.ADMITTED else Event.BLOCK
    return _turn(f"the dispatcher makes it {verdict}", event, shared, number, verdict)


def admit(shared: Shared, number: int, parts: Mechanisms) -> Steps:
    """Judge one job whose message came: at once under the limit's lock, or first read and later write."""
    if shared.jobs[number] not in ADMISSIBLE:
        return
    if parts.key_lock:
        yield _write(shared, number, _verdict(shared))
    elif shared.decisions[shared.active] is None:
        decision = Decision(number, _verdict(shared))
        label = f"job {number}: dispatcher {shared.active} reads, and decides: {decision.verdict}"
        yield Step(label, Kind.NORMAL, _decided(shared, shared.active, decision))


def _decided(shared: Shared, dispatcher: int, decision: Decision | None) -> Shared:
    first, second = shared.decisions
    return shared._replace(decisions=(decision, second) if dispatcher == 0 else (first, decision))


def write_decisions(shared: Shared) -> Steps:
    """A dispatcher writes what it has decided, however long ago that was."""
    for dispatcher, decision in enumerate(shared.decisions):
        if decision is not None:
            free = _decided(shared, dispatcher, None)
            if shared.jobs[decision.number] in ADMISSIBLE:
                yield _write(free, decision.number, decision.verdict)
            else:
                yield Step(f"dispatcher {dispatcher} finds its job moved on", Kind.NORMAL, free)


def run(shared: Shared, number: int, parts: Mechanisms) -> Steps:
    """An admitted job is claimed; a running one succeeds or fails."""
    state = shared.jobs[number]
    if state is State.ADMITTED:
        yield _turn("claimed", Event.CLAIM, shared, number, State.RUNNING)
    elif state is State.RUNNING:
        ended = shared._replace(is_announced=not parts.room_predicate)
        yield _turn("succeeds", Event.SUCCEED, ended, number, State.SUCCEEDED)
        if shared.failures:
            yield _turn("fails", Event.RETRY, ended._replace(failures=0), number, State.RETRYING)


def release_blocked(shared: Shared, number: int) -> Steps:
    """The release takes a blocked job when the limit has room for it beside what is on its way."""
    has_room = not any(state in HOLDS_SLOT or state is State.ENQUEUED for state in shared.jobs)
    if shared.jobs[number] is State.BLOCKED and has_room:
        yield _turn("released, its limit has room", Event.RELEASE, shared, number, State.ENQUEUED)
        yield _turn("released and admitted, under its limit's lock", Event.RELEASE, shared, number, State.ADMITTED)


def promote(shared: Shared) -> Steps:
    """The promoter hears of a job's end, and lets all blocked jobs try again."""
    if not shared.is_announced:
        return
    heard = shared._replace(is_announced=False)
    for number, state in enumerate(shared.jobs):
        if state is State.BLOCKED:
            yield _turn("promoted", Event.RELEASE, heard, number, State.ENQUEUED)
    if State.BLOCKED not in shared.jobs:
        yield Step("the promoter finds nobody", Kind.NORMAL, heard)
    if shared.faults:
        yield Step("the promoter dies", Kind.FAULT, heard._replace(faults=shared.faults - 1))


def fail_over(shared: Shared) -> Steps:
    """The first dispatcher stands still; the broker turns to the second."""
    if shared.faults and shared.active == 0:
        after = shared._replace(active=1, faults=shared.faults - 1)
        yield Step("dispatcher 0 stands still, dispatcher 1 takes over", Kind.FAULT, after)


def wrong(shared: Shared) -> str | None:
    """The safety property that a state breaks."""
    return EXCEEDED if shared.jobs.count(State.RUNNING) > 1 else None


def machine(parts: Mechanisms, scope: Scope) -> Machine[Shared]:
    """The whole, with ``parts`` in and as many faults as ``scope`` says."""

    def steps(shared: Shared) -> Steps:
        for number in (0, 1):
            yield from admit(shared, number, parts)
            yield from run(shared, number, parts)
            if parts.room_predicate:
                yield from release_blocked(shared, number)
        yield from write_decisions(shared)
        yield from promote(shared)
        yield from fail_over(shared)

    first = Shared((State.ENQUEUED, State.ENQUEUED), (None, None), scope.faults)
    return Machine(first, steps, wrong, lambda shared: shared.jobs == (State.SUCCEEDED, State.SUCCEEDED))
