"""Claims as slots come free; lets other workers have what finds no slot here for a while."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from mainspring.broker.consumer import Consumer
from mainspring.worker.intake import Intake
from mainspring.worker.slots import Slots

#: How long slots stay free, while messages of jobs that run are all that the broker lets be in hand, in seconds.
PATIENCE = 0.05


@dataclass(frozen=True, slots=True)
class ClaimJobs:
    """The worker's main loop. It is driven by two events, a message in hand and a slot that came free."""

    intake: Intake
    slots: Slots
    consumer: Consumer
    hold: float

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            self.intake.wake.clear()
            self.slots.slot_freed.clear()
            result = await self.intake.run_once()
            if result.again:
                continue
            if self.intake.held:
                await self._wait_for_slot()
            else:
                await self._wait_for_message()

    async def _wait_for_message(self) -> None:
        is_starved = self.slots.free > 0 and self.consumer.is_exhausted
        try:
            async with asyncio.timeout(PATIENCE if is_starved else None):
                await self.intake.wake.wait()
        except TimeoutError:
            self.consumer.take_more()
            await self.intake.wake.wait()

    async def _wait_for_slot(self) -> None:
        try:
            async with asyncio.timeout(self.hold):
                await self.slots.slot_freed.wait()
        except TimeoutError:
            self.consumer.pause()
            await self.intake.give_up_held()
            await self.slots.slot_freed.wait()
            self.consumer.resume()
