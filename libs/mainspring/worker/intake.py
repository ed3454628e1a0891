"""From messages to claims: take as many jobs as there are free slots, and keep nothing back from other workers.

Messages wait here only while slots are likely to come free (``hold`` seconds). After that their jobs are
published again under the same tickets, and the worker stops consuming until a slot is free. A claim whose
reply is lost is asked again with its id, and returns what it holds.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import uuid
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from datetime import timedelta
from typing import TypeVar

from mainspring.boot_clock import boot_time
from mainspring.broker.delivery import Delivery
from mainspring.broker.messages import JobBatch, split
from mainspring.broker.publisher import Publisher
from mainspring.domain.errors import BrokerUnavailable, DatabaseUnavailable
from mainspring.domain.job import JobRef
from mainspring.domain.lease import LeaseTerms
from mainspring.domain.retry import reconnect_delay
from mainspring.fault_points import reach
from mainspring.runtime.loop import Pass
from mainspring.store import claims, dead_letters
from mainspring.store.pool import Conn, Database
from mainspring.telemetry import metrics
from mainspring.telemetry.logs import get_logger
from mainspring.worker.attempt import Attempt
from mainspring.worker.gates import Gates
from mainspring.worker.slots import Slots

log = get_logger(__name__)
_MOST_CAME_BY = 1000
Held = tuple[JobRef, Delivery]
Answer = TypeVar("Answer")


class Intake:
    """Holds delivered references in order, and claims them as slots come free."""

    def __init__(
        self,
        database: Database,
        publisher: Publisher,
        slots: Slots,
        worker: claims.Claimant,
        terms: LeaseTerms,
        gates: Gates | None = None,
    ) -> None:
        self._database = database
        self._publisher = publisher
        self._slots = slots
        self._worker = worker
        self._terms = terms
        self.gates = gates or Gates()
        self._held: deque[Held] = deque()
        #: The tasks of what is held, where jobs of a task that is known here take several slots.
        self._tasks: dict[JobRef, str] = {}
        #: Jobs that take several slots, and were published again before.
        self._came_by: set[JobRef] = set()
        self._claiming = asyncio.Lock()
        self._is_stopping = False
        #: Set when there is something to claim and somewhere to run it.
        self.wake = asyncio.Event()

    @property
    def held(self) -> int:
        """References in hand that are not claimed."""
        return len(self._held)

    def receive(self, delivery: Delivery) -> None:
        """Take a message in hand."""
        self._held.extend((ref, delivery) for ref in delivery.batch.refs)
        self.wake.set()

    async def run_once(self) -> Pass:
        """Claim for the free slots, once."""
        async with self._claiming:
            count = self.gates.open_for(min(self._slots.free, len(self._held), claims.MOST))
            if count and self._slots.weights:
                await self._learn_tasks(count)
            taken = self._take(count) if count and not self._is_stopping else []
            if not taken:
                return Pass()
            await self._claim(taken)
        return Pass(done=len(taken), again=bool(self._held) and self._slots.free > 0)

    def _take(self, most: int) -> list[Held]:
        """The first of those in hand whose queue has not all its slots here; the others stay in their order.

        None passes by one that waits for more slots than are free.
        """
        room = {queue: self.gates.room_of(queue, self._slots.in_queue[queue]) for queue in self.queues_in_hand()}
        if not self._tasks and all(left >= most for left in room.values()):
            return [self._held.popleft() for _ in range(most)]
        free = self._slots.free
        taken: list[Held] = []
        stays: deque[Held] = deque()
        for held in self._held:
            queue, weight = held[1].batch.queue, self._weight(held)
            is_known = not self._slots.weights or held[0] in self._tasks
            if len(taken) == most or not room[queue] or not is_known or weight > free:
                free = 0 if room[queue] else free
                stays.append(held)
            elif weight > room[queue]:
                room[queue] = 0
                stays.append(held)
            else:
                free -= weight
                room[queue] -= weight
                taken.append(held)
        self._held = stays
        self._forget_tasks(taken)
        self._came_by.difference_update(ref for ref, _ in taken)
        return taken

    def _weight(self, held: Held) -> int:
        """The slots that a job takes: no more than its queue has here, so that it runs at all."""
        task = self._tasks.get(held[0])
        return min(self._slots.weight_of(task), self.gates.room_of(held[1].batch.queue, 0)) if task else 1

    async def _learn_tasks(self, count: int) -> None:
        """Ask for the tasks of the first that are held: only then are they taken."""
        unknown = [ref for ref, _ in itertools.islice(self._held, count) if ref not in self._tasks]
        if unknown:
            ids = [ref.id for ref in unknown]
            known = await self._until_answered(
                lambda: self._database.run(lambda connection: claims.tasks_of(connection, ids)), len(ids)
            )
            self._tasks |= {ref: known.get(ref.id, "") for ref in unknown}

    def _note_passed_on(self, held: Iterable[Held]) -> None:
        """Remember those that take several slots."""
        if self._tasks:
            several = {ref for ref, _ in held if self._slots.weight_of(self._tasks.get(ref, "")) > 1}
            self._came_by = self._came_by | several if len(self._came_by) < _MOST_CAME_BY else several
            self._forget_tasks(held)

    def _forget_tasks(self, gone: Iterable[Held]) -> None:
        for ref, _ in gone if self._tasks else ():
            self._tasks.pop(ref, None)

    def is_worth_room(self) -> bool:
        """True when the next job takes several slots, more than are free, and has come back: no other took it."""
        heads = itertools.islice(self._held, 1)
        return any(1 < self._weight(held) > self._slots.free and held[0] in self._came_by for held in heads)

    async def give_up_behind(self) -> None:
        """Let other workers have all that is held behind the next job."""
        first, *behind = self._held
        self._held = deque([first])
        await self._publish_again(behind)

    def queues_in_hand(self) -> set[str]:
        """The queues of what is in hand and not claimed."""
        return {delivery.batch.queue for _, delivery in self._held}

    def is_full(self, queue: str) -> bool:
        """True when a queue has all the slots that it may have here."""
        return not self.gates.room_of(queue, self._slots.in_queue[queue])

    async def give_up_held(self, queues: Collection[str] | None = None) -> None:
        """Publish what is held (of ``queues``) again, under the same tickets, so that another worker can take it."""
        going = [held for held in self._held if queues is None or held[1].batch.queue in queues]
        self._held = deque(held for held in self._held if queues is not None and held[1].batch.queue not in queues)
        await self._publish_again(going)

    async def stop(self) -> None:
        """Claim nothing more; wait for a claim under way; give up what is held."""
        self._is_stopping = True
        async with self._claiming:
            await self.give_up_held()

    async def _claim(self, taken: Sequence[Held]) -> None:
        deliveries = dict(taken)
        # Two copies of a reference in one claim: one is enough, and the other message is redundant with it.
        copies = [held for held in taken if deliveries[held[0]] is not held[1]]
        answer, sent_at = await self._ask(list(deliveries))
        reach("claim.committed")
        trusted_until = self._terms.trusted_until(sent_at)
        attempts = [Attempt(job, deliveries[job.ref], job.ref, trusted_until) for job in answer.claimed]
        self.gates.started(len(attempts))
        if self._is_stopping:
            self._slots.hand_back(attempts)
        else:
            self._slots.start(attempts)
        for queue, count in Counter(attempt.job.queue for attempt in attempts).items():
            metrics.CLAIMED.labels(queue).inc(count)
        await self._settle_unclaimed(answer, deliveries, copies)

    async def _ask(self, refs: list[JobRef]) -> tuple[claims.ClaimAnswer, float]:
        claim_id, lease = uuid.uuid4(), timedelta(seconds=self._terms.lease)
        sent_at = 0.0

        async def claim(connection: Conn) -> claims.ClaimAnswer:
            return await claims.claim(connection, refs, claim_id, self._worker, lease)

        async def once() -> claims.ClaimAnswer:
            nonlocal sent_at
            sent_at = boot_time()
            return await self._database.run(claim)

        return await self._until_answered(once, len(refs)), sent_at

    async def _until_answered(self, ask: Callable[[], Awaitable[Answer]], jobs: int) -> Answer:
        """Ask again while the database is away: what is held is held until it is claimed or given up."""
        failures = 0
        while True:
            try:
                return await ask()
            except DatabaseUnavailable as error:
                failures += 1
                log.warning("claim delayed", jobs=jobs, error=str(error))
                await asyncio.sleep(reconnect_delay(failures, random.random(), 2.0))  # noqa: S311  a delay

    async def _settle_unclaimed(
        self, answer: claims.ClaimAnswer, deliveries: dict[JobRef, Delivery], copies: Iterable[Held]
    ) -> None:
        for reason, refs in answer.returned.items():
            metrics.RETURNED.labels(reason).inc(len(refs))
        metrics.STALE.labels("claim").inc(len(answer.stale))
        for ref in answer.unknown:
            await self._keep_unknown(ref, deliveries[ref])
        if answer.dead:
            await self._announce_dead(answer.dead)
        for ref in answer.redundant():
            deliveries[ref].settle([ref])
        for ref, delivery in copies:
            delivery.settle([ref])

    async def _keep_unknown(self, ref: JobRef, delivery: Delivery) -> None:
        """No such row: the message is kept as it came, for a person to look at."""
        log.warning("message names a job that doesn't exist", job_id=str(ref.id))
        await self._database.run(
            lambda connection: dead_letters.record_message(
                connection, reason="unknown_job", queue=delivery.batch.queue, body=delivery.body, detail=str(ref.id)
            )
        )

    async def _announce_dead(self, dead: dict[str, list[JobRef]]) -> None:
        try:
            for queue, refs in dead.items():
                for batch in split(queue, refs):
                    await self._publisher.publish_dead(batch)
        except BrokerUnavailable as error:
            log.warning("dead letters not announced; their rows will be found", error=str(error))

    async def _publish_again(self, held: Sequence[Held]) -> None:
        by_delivery: dict[Delivery, list[JobRef]] = {}
        for ref, delivery in held:
            by_delivery.setdefault(delivery, []).append(ref)
        self._note_passed_on(held)
        for delivery, refs in by_delivery.items():
            try:
                await self._publisher.publish_work(JobBatch(delivery.batch.queue, tuple(refs)))
                delivery.settle(refs)
            except BrokerUnavailable as error:
                # The connection that holds the message is likely gone as well: the broker returns it.
                log.warning("message not published again; it will be returned", error=str(error))
                await delivery.give_back()
