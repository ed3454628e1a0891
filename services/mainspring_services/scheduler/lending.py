"""Lending a queue's credit to the apis, which release a lone job with its own insert then (``runtime.lent_credit``).

A release that left nothing behind lends some of what is free. Any scheduler takes it back whose release finds that
something has to wait: then it is the order of a release that counts. A loan is small, so what a lender that died, or a
takeover that is late, can do is small too.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable

from mainspring.runtime.lent_credit import Loan
from mainspring.store import fleet
from mainspring.store.pool import Database
from mainspring.store.release import Released
from mainspring.store.wakeups import LOAN_CHANNEL

#: What each api may release before it has to ask again, by a submit that is released as usual.
JOBS = 64
#: A release of more is none of lone submits.
LONE = 10
#: How long until the same queue is lent again: an api that hears of no loan would have one sent with each job.
AGAIN_SECONDS = 0.2


class Lending:
    """What one scheduler knows of the loans of all, and lends itself."""

    def __init__(self, database: Database) -> None:
        self._database = database
        #: On which this scheduler hears what it is to publish.
        self.channel = f"mainspring_lent_{uuid.uuid4().hex}"
        #: The lender of each queue, "" for none; what isn't here isn't known.
        self._lenders: dict[str, str] = {}
        self._lent_at: dict[str, float] = {}
        self._is_ending = False
        #: Something has been heard since the last loan that this scheduler told, the loan itself if nothing else.
        self._hears = False

    def hear(self, text: str) -> None:
        """Somebody lent, or took back; "": what was heard may be out of date."""
        self._hears = True
        if text:
            self._note(Loan.from_text(text))
        else:
            self._lenders.clear()

    async def learn(self, queue: str, released: Released, most: int) -> None:
        """Lend or take back, by what a release of up to ``most`` jobs found. Raises DatabaseUnavailable."""
        if released.is_locked_elsewhere:
            return
        if released.has_lines or released.is_limited_by_window:
            await self.take_back([queue])
        elif 0 < released.count <= LONE and released.count < most and released.credit - released.count >= JOBS:
            await self._lend(queue)

    async def take_back(self, queues: Iterable[str]) -> None:
        """Nobody may release jobs of these queues but a scheduler. Raises DatabaseUnavailable."""
        for queue in queues:
            if self._lenders.get(queue) != "":
                await self._tell(Loan(queue))

    async def end(self) -> None:
        """Take back what this scheduler has lent: it stops. Raises DatabaseUnavailable."""
        self._is_ending = True
        await self.take_back([queue for queue, lender in self._lenders.items() if lender == self.channel])

    async def _lend(self, queue: str) -> None:
        # Who can't hear, by a connection that is dead or a pooler between, couldn't publish what is released for it.
        if self._is_ending or not self._hears:
            return
        now = time.monotonic()
        if now - self._lent_at.get(queue, -AGAIN_SECONDS) >= AGAIN_SECONDS:
            self._lent_at[queue] = now
            self._hears = False
            await self._tell(Loan(queue, JOBS, self.channel))

    async def _tell(self, loan: Loan) -> None:
        await self._database.run(lambda connection: fleet.notify(connection, LOAN_CHANNEL, loan.as_text()))
        self._note(loan)

    def _note(self, loan: Loan) -> None:
        self._lenders[loan.queue] = loan.lender if loan.jobs else ""
