"""Claims as slots come free; lets other workers have what finds no room here for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from mainspring.boot_clock import boot_time
from mainspring.broker import topology
from mainspring.broker.consumer import Consumer
from mainspring.worker.intake import Intake
from mainspring.worker.slots import Slots

#: How long slots stay free, while messages of jobs that run are all that the broker lets be in hand, in seconds.
PATIENCE = 0.05
#: How long slots are kept free for a job that takes several, in seconds: a message that nobody claims for longer than
#: twice that is sent again.
LONGEST_MAKING_ROOM = 30.0


@dataclass(slots=True)
class ClaimJobs:
    """The worker's main loop, driven by a message in hand, a slot that came free, and a gate that opens."""

    intake: Intake
    slots: Slots
    consumer: Consumer
    hold: float
    #: Queues that have all their slots here, and of which nothing is taken meanwhile.
    _full: set[str] = field(default_factory=set)
    #: True while nothing else is taken, so that slots come together for a job that takes several.
    _makes_room: bool = False
    #: When something began here, or nothing was in hand.
    _moved_at: float = field(default_factory=boot_time)

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            self.intake.wake.clear()
            self.slots.slot_freed.clear()
            if self._full:
                self._hold_back(queue for queue in self._full if self.intake.is_full(queue))
            result = await self.intake.run_once()
            if self._makes_room and (result.done or not self.intake.held):
                self._makes_room = False
                self.consumer.resume()
            if result.done:
                self._moved_at = boot_time()
            if result.again:
                continue
            if self.intake.held:
                await self._wait_for_room()
            else:
                await self._wait_for_message()
                self._moved_at = boot_time()

    async def _wait_for_message(self) -> None:
        if self._full:
            # One of them may have room before anything else comes.
            await self._wait(self.hold)
            return
        is_starved = self.slots.free > 0 and self.consumer.is_exhausted
        try:
            async with asyncio.timeout(PATIENCE if is_starved else None):
                await self.intake.wake.wait()
        except TimeoutError:
            self.consumer.take_more()
            await self.intake.wake.wait()

    async def _wait_for_room(self) -> None:
        opens_in = self.intake.gates.opens_in()
        left = self._moved_at + self.hold - boot_time()
        if left > 0:
            await self._wait(left if opens_in is None else min(left, opens_in))
            return
        left += LONGEST_MAKING_ROOM
        if opens_in is None and left > 0 and self.intake.is_worth_room():
            self._makes_room = True
            self.consumer.pause()
            await self.intake.give_up_behind()
            await self._wait_for_slot(left)
            return
        self._makes_room = False
        full = {queue for queue in self.intake.queues_in_hand() if self.intake.is_full(queue)}
        if self.slots.free and opens_in is None and full:
            self._hold_back(self._full | full)
            await self.intake.give_up_held(full)
            return
        self.consumer.pause()
        await self.intake.give_up_held()
        while not self.slots.free:
            self.slots.slot_freed.clear()
            await self.slots.slot_freed.wait()
        while (opens_in := self.intake.gates.opens_in()) is not None:  # noqa: ASYNC110  time and memory give no signal
            await asyncio.sleep(opens_in)
        self.consumer.resume()

    def _hold_back(self, queues: Iterable[str]) -> None:
        self._full = set(queues)
        self.consumer.hold_back(topology.work_queue(queue) for queue in self._full)

    async def _wait_for_slot(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.slots.slot_freed.wait()

    async def _wait(self, seconds: float) -> None:
        """Until a slot comes free, or a message while there are free slots; so long at most."""
        events = [self.slots.slot_freed, *([self.intake.wake] if self.slots.free else [])]
        waits = [asyncio.ensure_future(event.wait()) for event in events]
        _, pending = await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for wait in pending:
            wait.cancel()
