"""From messages to claims: take as many jobs as there are free slots, and keep nothing back from other workers.

Messages wait here only while slots are likely to come free (``hold`` seconds). After that their jobs are
published again under the same tickets, and the worker stops consuming until a slot is free. A claim whose
reply is lost is asked again with its id, and returns what it holds.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections import Counter, deque
from collections.abc import Collection, Iterable, Sequence
from datetime import timedelta

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
from mainspring.store.pool import Database
from mainspring.telemetry import metrics
from mainspring.telemetry.logs import get_logger
from mainspring.worker.attempt import Attempt
from mainspring.worker.gates import Gates
from mainspring.worker.slots import Slots

log = get_logger(__name__)
Held = tuple[JobRef, Delivery]


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
            taken = self._take(count) if count and not self._is_stopping else []
            if not taken:
                return Pass()
            await self._claim(taken)
        return Pass(done=len(taken), again=bool(self._held) and self._slots.free > 0)

    def _take(self, most: int) -> list[Held]:
        """The first of those in hand whose queue has not all its slots here; the others stay in their order."""
        room = {queue: self.gates.room_of(queue, self._slots.in_queue[queue]) for queue in self.queues_in_hand()}
        if all(left >= most for left in room.values()):
            return [self._held.popleft() for _ in range(most)]
        taken: list[Held] = []
        stays: deque[Held] = deque()
        for held in self._held:
            queue = held[1].batch.queue
            if len(taken) < most and room[queue]:
                room[queue] -= 1
                taken.append(held)
            else:
                stays.append(held)
        self._held = stays
        return taken

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
        claim_id = uuid.uuid4()
        failures = 0
        while True:
            sent_at = boot_time()
            try:
                answer = await self._database.run(
                    lambda connection: claims.claim(
                        connection, refs, claim_id, self._worker, timedelta(seconds=self._terms.lease)
                    )
                )
            except DatabaseUnavailable as error:
                failures += 1
                log.warning("claim delayed", jobs=len(refs), error=str(error))
                await asyncio.sleep(reconnect_delay(failures, random.random(), 2.0))  # noqa: S311  a delay
            else:
                return answer, sent_at

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
        for delivery, refs in by_delivery.items():
            try:
                await self._publisher.publish_work(JobBatch(delivery.batch.queue, tuple(refs)))
                delivery.settle(refs)
            except BrokerUnavailable as error:
                # The connection that holds the message is likely gone as well: the broker returns it.
                log.warning("message not published again; it will be returned", error=str(error))
                await delivery.give_back()
