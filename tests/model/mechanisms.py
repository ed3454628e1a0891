"""What protects the protocol, each part to be taken out by itself; and how much may go wrong in one run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mechanisms:
    """The parts that are in. As built, all are."""

    #: A release commits before it publishes; else it publishes under the row's lock and commits afterwards.
    commit_first: bool = True
    #: A committed release leaves an outbox row that any scheduler can publish.
    outbox: bool = True
    #: Admission and claim compare a message's ticket with the fence; else they look at the state alone.
    tickets: bool = True
    #: Without tickets: the claim of a retry tests its due time.
    due_guard: bool = True
    #: Settlements compare the fence.
    fence: bool = True
    #: A claim whose reply was lost is asked for again with its id.
    claim_id: bool = True
    #: A handler ends before its lease can be taken from a supervisor that stands still.
    trust_window: bool = True
    #: The cancel of a running job is a request; else it ends the job at once.
    cancel_request: bool = True
    #: A hand-back gives the attempt back.
    free_hand_back: bool = True
    #: Expired leases are settled.
    reclaim: bool = True
    #: A new epoch after a wipe; overdue retries and unclaimed messages are noticed.
    reconcile: bool = True
    #: Who admits counts and writes under the limit's lock; else it reads, and writes later.
    key_lock: bool = True
    #: Blocked jobs are found by the release, "its limit has room"; else an event promotes them.
    room_predicate: bool = True


@dataclass(frozen=True, slots=True)
class Scope:
    """How much happens in one run from outside the straight path."""

    faults: int = 0
    cancels: int = 0
    redrives: int = 0
    #: The job's queue has a concurrency limit, so the dispatcher admits it.
    is_limited: bool = False
    #: Ladder messages may be a tick early.
    is_ladder_early: bool = True
