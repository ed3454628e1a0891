"""From due rows to outbox rows: what a scheduler's release reads and writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from mainspring.domain.job import MOST_REFS, PRIORITIES, JobRef, check_name
from mainspring.store import queues
from mainspring.store.pool import Conn
from mainspring.store.sql import load

_SQL = load("release")
ALWAYS = datetime(1970, 1, 1, tzinfo=UTC)


class OutboxBatch(NamedTuple):
    """A committed batch that is to be published."""

    id: int
    queue: str
    refs: tuple[JobRef, ...]
    #: Their limits have been judged. Not known of a batch that somebody else's release left.
    is_admitted: bool = False


class Counted(NamedTuple):
    """So many jobs of a queue were in the broker when the outbox's last id was ``at``."""

    jobs: int
    at: int

    def at_most(self, last_id: int) -> int:
        """How many can be there when its last id is ``last_id``."""
        return self.jobs + (last_id - self.at) * MOST_REFS


@dataclass(frozen=True, slots=True)
class Released:
    """What one release did, and whether the credit ended it."""

    batches: tuple[OutboxBatch, ...] = ()
    count: int = 0
    credit: int = 0
    is_locked_elsewhere: bool = False
    #: Seconds that jobs of the queue have been in the broker, on average; None: none are, or only old ones.
    age: float | None = None
    #: What was in the broker before it, if that was counted.
    counted: Counted | None = None
    #: Its jobs wait in lines: ``store.lines`` is what releases them.
    has_lines: bool = False
    #: Some jobs wait in them.
    has_waiting: bool = False
    #: More have become due than one pass looks at.
    has_more: bool = False
    #: Some lines wait until a slot is free.
    waits_for_room: bool = False
    #: All lines wait for a rate: seconds until the first has a token.
    waits_for_rate: float | None = None

    @property
    def is_limited_by_window(self) -> bool:
        """True when all the credit was used: there may have been more to release."""
        return not self.is_locked_elsewhere and self.count >= self.credit


@dataclass(slots=True)
class Bounds:
    """Where each queue's scan begins: the due time that an earlier release of this process has reached.

    Behind the bound lie the index entries of jobs that were released; while some transaction is held open,
    vacuum can't remove them, and a scan from the start would walk over all of them. New jobs are never due
    before the moment they are written, so little can appear behind the bound: a job of a transaction that
    committed late. ``margin`` covers the usual ones, ``look_back`` those of transactions that took up to ``late``, and
    the full sweep that ``forget`` allows finds the rest. What waits in lines lies behind the bound too: a full sweep
    walks over all of it.
    """

    margin: timedelta = timedelta(milliseconds=250)
    #: How far behind the furthest reach ``look_back`` goes.
    late: timedelta = timedelta(minutes=1)
    _reached: dict[str, list[datetime]] = field(default_factory=dict)
    _furthest: dict[str, list[datetime]] = field(default_factory=dict)

    def of(self, queue: str) -> list[datetime]:
        """The lower bound of each priority."""
        return self._reached.get(queue, [ALWAYS] * PRIORITIES)

    def advance(self, queue: str, reached: Mapping[int, datetime]) -> None:
        """Remember how far a release got, by priority."""
        bounds = list(self.of(queue))
        for priority, instant in reached.items():
            bounds[priority] = max(bounds[priority], instant - self.margin)
        self._reached[queue] = bounds
        self._furthest[queue] = list(map(max, bounds, self._furthest.get(queue, bounds)))

    def look_back(self, queue: str) -> None:
        """Begin the queue's next scan a little earlier than where it has been."""
        if queue in self._furthest:
            earlier = [bound if bound == ALWAYS else bound - self.late for bound in self._furthest[queue]]
            self._reached[queue] = list(map(min, earlier, self._reached[queue]))

    def queues(self) -> list[str]:
        """The queues that have bounds."""
        return list(self._reached)

    def flat(self) -> tuple[list[str], list[datetime]]:
        """The queues that have bounds, and PRIORITIES bounds for each of them in a row."""
        return list(self._reached), [bound for bounds in self._reached.values() for bound in bounds]

    def forget(self, queue: str | None = None) -> None:
        """Begin the next scan of one queue, or of all, at the start."""
        for bounds in (self._reached, self._furthest):
            if queue is None:
                bounds.clear()
            else:
                bounds.pop(queue, None)


@dataclass(frozen=True, slots=True)
class NextDue:
    """How long until a queue's first job is due (0 or less: now; None: none is), and whether jobs wait in lines."""

    wait: timedelta | None
    has_lines: bool


async def next_due(connection: Conn, bounds: Bounds) -> dict[str, NextDue]:
    """What waits in each queue that isn't paused."""
    bounded, flat = bounds.flat()
    rows = await connection.fetch(_SQL["next_due"], bounded, flat)
    if any(row["due_at"] is None and not row["has_lines"] for row in rows):
        await queues.adopt_queues(connection)
        rows = await connection.fetch(_SQL["next_due"], bounded, flat)
    return {row["queue"]: NextDue(row["due_at"] and row["due_at"] - row["now"], row["has_lines"]) for row in rows}


async def release(
    connection: Conn,
    queue: str,
    bounds: Bounds,
    *,
    most: int = 1000,
    window: int | None = None,
    refs_in_batch: int = MOST_REFS,
    published: Sequence[int] = (),
    counted: Counted | None = None,
) -> Released:
    """Release up to ``most`` due jobs of ``queue``, as far as its credit goes, in batches of ``refs_in_batch``.

    One statement, in a transaction of its own: publish after its commit. It also forgets ``published`` batches.
    ``window``: how many jobs may be in the broker, when that is to be less than the queue says. A queue with lines is
    left as it is, and the answer says so. ``counted``: what an earlier release of this process has counted; where that
    leaves enough of the window this one doesn't.
    """
    rows = await connection.fetch(
        _SQL["release"],
        queue,
        most,
        bounds.of(queue),
        refs_in_batch,
        published,
        window,
        *(counted or (None, None)),
    )
    if not rows:
        return Released(is_locked_elsewhere=True)
    batches = tuple(
        OutboxBatch(row["id"], queue, tuple(map(JobRef, row["ids"], row["tickets"])))
        for row in rows
        if row["id"] is not None
    )
    if batches:
        bounds.advance(queue, dict(zip(rows[0]["priorities"], rows[0]["reached"], strict=True)))
    return Released(
        batches,
        sum(len(batch.refs) for batch in batches),
        rows[0]["credit"],
        age=rows[0]["age"],
        counted=None if rows[0]["counted_at"] is None else Counted(rows[0]["in_broker"], rows[0]["counted_at"]),
        has_lines=rows[0]["has_lines"],
    )


#: A job's task, and the queue that it names.
Place = tuple[str, str | None]


class PlainQueue(NamedTuple):
    """A queue of which only credit is asked for."""

    name: str
    release_window: int
    #: The outbox's last id.
    last_id: int


async def queues_of(connection: Conn, places: Sequence[Place]) -> dict[Place, PlainQueue]:
    """For each: where its jobs go, as far as nothing but credit stands between them and a release."""
    if not places:
        return {}
    tasks, names = zip(*places, strict=True)
    rows = await connection.fetch(_SQL["queues_of"], tasks, names)
    return {places[row["place"] - 1]: PlainQueue(row["queue"], row["release_window"], row["last_id"]) for row in rows}


async def in_broker(connection: Conn, queue: str) -> int:
    """How many jobs of ``queue`` are in the broker; it looks at each."""
    count: int = await connection.fetchval(_SQL["in_broker"], queue)
    return count


async def store_batches(connection: Conn, jobs: Mapping[str, Sequence[UUID]]) -> list[OutboxBatch]:
    """What is to be published of jobs, by queue, that this transaction has made as released ones."""
    placed = [(queue, place // MOST_REFS, id_) for queue, ids in jobs.items() for place, id_ in enumerate(ids)]
    if not placed:
        return []
    rows = await connection.fetch(_SQL["store_batches"], *zip(*placed, strict=True))
    return [OutboxBatch(row["id"], row["queue"], tuple(map(JobRef, row["ids"], row["tickets"]))) for row in rows]


def batch_from(text: str) -> OutboxBatch:
    """What ``jobs.insert`` says to a lender of the job that it released. Raises ValueError, InvalidInput for a queue.

    Whoever has a connection can say something: a queue's name becomes one of the broker's objects.
    """
    id_, job_id, ticket, queue = text.split(" ", 3)
    check_name("queue", queue)
    if not (0 < int(id_) < 1 << 63 and 0 < int(ticket) < 1 << 63):
        raise ValueError(f"no ids of rows: {id_}, {ticket}")
    return OutboxBatch(int(id_), queue, (JobRef(UUID(job_id), int(ticket)),))


async def delete_outbox(connection: Conn, ids: Sequence[int]) -> None:
    """Forget batches that have been published."""
    await connection.execute(_SQL["delete_outbox"], ids)


async def take_stale_outbox(connection: Conn, older_than: timedelta) -> tuple[list[OutboxBatch], float]:
    """Batches that nobody has published in time, and the age in seconds of the oldest (0 when there are none)."""
    rows = await connection.fetch(_SQL["take_stale_outbox"], older_than)
    batches = [OutboxBatch(row["id"], row["queue"], tuple(map(JobRef, row["ids"], row["tickets"]))) for row in rows]
    return batches, max((row["age"] for row in rows), default=0.0)


async def put_back(connection: Conn, batch: OutboxBatch, backoff: timedelta) -> list[UUID]:
    """The broker returned the batch: its jobs wait in Postgres again, and the queue backs off."""
    ids, tickets = zip(*batch.refs, strict=True)
    rows = await connection.fetch(_SQL["put_back"], batch.queue, ids, tickets, backoff)
    return [row["id"] for row in rows]
