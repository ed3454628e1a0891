"""What the broker lost, found from the rows. Two causes, two ways.

*Amnesia*: a queue named by the epoch in Postgres is missing (or any other is). Everything is declared again,
every job in the broker's hands is scheduled again, and only then is the new epoch's queue declared: a crash on
the way is noticed by the next probe. *One lost message*: a job that nobody claims is sent again under the same
ticket; a retry that the ladder doesn't bring is scheduled again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from mainspring.broker import topology
from mainspring.broker.messages import split
from mainspring.broker.publisher import Publisher
from mainspring.domain.job import JobRef
from mainspring.runtime.leader import Leadership
from mainspring.runtime.loop import Pass
from mainspring.runtime.reschedule import reschedule
from mainspring.store import queues, reconcile
from mainspring.store.pool import Database
from mainspring.store.reconcile import Epoch
from mainspring.store.release import Bounds
from mainspring.telemetry import metrics
from mainspring.telemetry.logs import get_logger
from mainspring_services.scheduler.queue_topology import QueueTopology
from mainspring_services.scheduler.tour import Tour

log = get_logger(__name__)
RETRY_OVERDUE = timedelta(seconds=5)
#: For so long after its beginning an epoch's queues may be missing.
BEING_DECLARED = timedelta(seconds=4)
#: For how long a queue is silent before it counts as lost; and where more than half of those asked are.
SILENT = timedelta(seconds=15)
MOSTLY_SILENT = timedelta(seconds=60)
#: A part of all queues is asked for in each pass: all of them in so many passes.
PASSES_OF_A_TOUR = 8
#: Queues that are asked for their leader in one pass while the connection to the broker is young: a restart is what
#: costs queues their leaders. Later on it is a part of them.
ASKED_AT_ONCE = 20
YOUNG_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class ReconcileEpoch:
    """Asks whether the broker remembers, and begins a new epoch when it doesn't.

    The epoch's queue tells each time whether the whole memory is there; the others are asked for in turn.
    """

    database: Database
    topology: QueueTopology
    bounds: Bounds
    tour: Tour = field(default_factory=Tour)

    async def run_once(self) -> Pass:
        """Probe once."""
        epoch = await self.database.run(reconcile.epoch)
        is_current = epoch.topology_version == topology.VERSION
        missing = await self._missing(epoch) if is_current else ["(another topology version)"]
        if not missing:
            return Pass()
        if is_current and epoch.age < BEING_DECLARED:
            # Another scheduler has begun this epoch and is still at it; should it have died, the next pass goes on.
            return Pass()
        log.warning("the broker lacks queues: a new epoch begins", missing=missing[:5], count=len(missing))
        return Pass(done=await self._begin(epoch), again=True)

    async def _missing(self, epoch: Epoch) -> list[str]:
        names = self.topology.names()
        some = self.tour.next(names, _part(names, PASSES_OF_A_TOUR))
        return (await self.topology.look([topology.epoch_queue(str(epoch.id)).name, *some])).missing

    async def _begin(self, old: Epoch) -> int:
        started = time.monotonic()
        epoch = await self.database.run(lambda connection: reconcile.change_epoch(connection, old, topology.VERSION))
        if epoch is None:
            return 0
        await self.topology.declare_all(queue.name for queue in await self.database.run(queues.all_queues))
        moved = await reschedule(self.database)
        self.bounds.forget()
        await self.topology.mark_epoch(epoch, old)
        metrics.RECONCILED.labels("amnesia").inc(moved)
        metrics.RECOVERY_SECONDS.observe(time.monotonic() - started)
        log.info("the new epoch has begun", jobs_scheduled_again=moved)
        return moved


class ReconcileLeaders:
    """Deletes queues that exist and have lost their leader: what is missing is what ``ReconcileEpoch`` makes again.

    A few queues a pass, in turn, of those that show no message. One silence proves nothing, and while most are silent
    it is the broker's nodes that lack a majority: a queue goes when it was silent for SILENT, or MOSTLY_SILENT then.
    What a person may still want, dead and unreadable messages, is never deleted.
    """

    def __init__(self, database: Database, topology: QueueTopology, leadership: Leadership) -> None:
        self._database = database
        self._topology = topology
        self._leadership = leadership
        self._tour = Tour()
        #: Since when each of these has been silent, by the monotonic clock.
        self._silent: dict[str, float] = {}

    async def run_once(self) -> Pass:
        """Ask the next few queues, and those that were silent."""
        if not self._leadership.is_held:
            self._silent = {}
            return Pass()
        asked = await self._choose()
        silent = await self._topology.leaderless(asked)
        now = time.monotonic()
        self._silent = {name: self._silent.get(name, now) for name in silent}
        patience = SILENT if 2 * len(silent) <= len(asked) else MOSTLY_SILENT
        lost = [name for name, since in self._silent.items() if now - since > patience.total_seconds()]
        if not lost:
            return Pass()
        async with self._leadership.transaction() as connection:
            if connection is None:
                return Pass()
        await self._topology.delete(lost)
        log.error("queues had lost their leader and were deleted; they will be made again", queues=lost)
        metrics.LEADERLESS.inc(len(lost))
        self._silent = {}
        return Pass(done=len(lost))

    async def _choose(self) -> list[str]:
        names = [name for name in self._topology.names() if topology.holds_hints(name)]
        is_young = self._topology.connected_for < YOUNG_SECONDS
        some = self._tour.next(names, ASKED_AT_ONCE if is_young else _part(names, PASSES_OF_A_TOUR))
        # A queue that was deleted is missing, which is another loop's concern.
        return (await self._topology.look(sorted({*some, *self._silent} & {*names}))).empty


def _part(names: Sequence[str], of_all: int) -> int:
    return -(-len(names) // of_all)


@dataclass(frozen=True, slots=True)
class ReconcileMessages:
    """Finds what only time tells: lost messages, and jobs that have waited past their expiry."""

    database: Database
    publisher: Publisher
    unclaimed_after: timedelta

    async def run_once(self) -> Pass:
        """Schedule overdue retries; bury expired jobs; send unclaimed ones again."""
        retries = await self.database.run(lambda connection: reconcile.reschedule_retries(connection, RETRY_OVERDUE))
        metrics.RECONCILED.labels("ladder_message_missing").inc(retries)
        await self._bury_overdue()
        unclaimed = await self.database.run(
            lambda connection: reconcile.take_unclaimed(connection, self.unclaimed_after)
        )
        by_place: dict[tuple[str, bool], list[JobRef]] = {}
        for one in unclaimed:
            by_place.setdefault((one.queue, one.is_admitted), []).append(one.ref)
        for (queue, is_admitted), refs in by_place.items():
            for batch in split(queue, refs):
                await (self.publisher.publish_work if is_admitted else self.publisher.publish_due)(batch)
        metrics.RECONCILED.labels("unclaimed").inc(len(unclaimed))
        return Pass(done=retries + len(unclaimed))

    async def _bury_overdue(self) -> None:
        buried = await self.database.run(reconcile.bury_overdue)
        for queue, refs in buried.items():
            for batch in split(queue, refs):
                await self.publisher.publish_dead(batch)
