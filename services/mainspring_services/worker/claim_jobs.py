"""Claims as slots come free; lets other workers have what finds no slot here for a while."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from mainspring.broker.consumer import Consumer
from mainspring.worker.intake import Intake
from mainspring.worker.slots import Slots


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
