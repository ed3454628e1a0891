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

    def hear(self, text: str) -> None:
        """Somebody lent, or took back; "": what was heard may be out of date."""
        if not text:
            self._lenders.clear()
            return
        loan = Loan.from_text(text)
        self._lenders[loan.queue] = loan.lender if loan.jobs else ""

    async def learn(self, queue: str, released: Released) -> None:
        """Lend or take back, by what a release found. Raises DatabaseUnavailable."""
        if released.is_locked_elsewhere:
            return
        if released.has_lines or released.is_limited_by_window:
            await self.take_back([queue])
        elif not self._is_ending and 0 < released.count <= LONE and released.credit - released.count >= JOBS:
            now = time.monotonic()
            if now - self._lent_at.get(queue, -AGAIN_SECONDS) >= AGAIN_SECONDS:
                self._lent_at[queue] = now
                await self._tell(Loan(queue, JOBS, self.channel))

    async def take_back(self, queues: Iterable[str]) -> None:
        """Nobody may release jobs of these queues but a scheduler. Raises DatabaseUnavailable."""
        for queue in queues:
            if self._lenders.get(queue) != "":
                await self._tell(Loan(queue))

    async def end(self) -> None:
        """Take back what this scheduler has lent: it stops. Raises DatabaseUnavailable."""
        self._is_ending = True
        await self.take_back([queue for queue, lender in self._lenders.items() if lender == self.channel])

    async def _tell(self, loan: Loan) -> None:
        await self._database.run(lambda connection: fleet.notify(connection, LOAN_CHANNEL, loan.as_text()))
        self.hear(loan.as_text())
