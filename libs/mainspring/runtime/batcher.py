"""Group commit: concurrent single requests share one statement.

Callers hand in one item each and await its answer. A batch leaves as soon as the one before it has
returned, with all that arrived meanwhile: an idle system waits on no timer, a busy one pays one commit
for many. When a batch raises, it is split in halves until the bad item is alone; only its caller sees
the error. An error that says "the server is away" is nobody's fault, and goes to all callers at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from mainspring.domain.errors import Unavailable
from mainspring.telemetry import metrics

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Batcher(Generic[Item, Answer]):
    """Turns ``await submit(item)`` of many callers into few calls of ``write(items) -> answers``.

    ``write`` gets 1 to ``most`` items in the order of arrival and returns one answer for each. With
    ``lanes`` > 1 that many batches may be under way at once; order between them is not kept.
    """

    def __init__(
        self,
        name: str,
        write: Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]],
        *,
        most: int = 500,
        lanes: int = 1,
    ) -> None:
        self._write = write
        self._most = most
        self._lanes = lanes
        self._size = metrics.BATCH_SIZE.labels(name)
        self._waiting: deque[tuple[Item, asyncio.Future[Answer]]] = deque()
        self._busy: set[asyncio.Task[None]] = set()

    async def submit(self, item: Item) -> Answer:
        """Have ``item`` written and return its answer; raises what ``write`` raised for it."""
        return await self.enqueue(item)

    def enqueue(self, item: Item) -> asyncio.Future[Answer]:
        """As ``submit``, without waiting: the future carries the answer."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if len(self._busy) < self._lanes:
            self._start_lane()
        return future

    async def drain(self) -> None:
        """Wait until everything that was handed in has its answer."""
        while self._busy:
            await asyncio.wait(self._busy)

    def _start_lane(self) -> None:
        lane = asyncio.get_running_loop().create_task(self._run_lane())
        self._busy.add(lane)
        lane.add_done_callback(self._busy.discard)

    async def _run_lane(self) -> None:
        try:
            await asyncio.sleep(0)  # all who are ready in this turn of the loop travel together
            while self._waiting:
                count = min(self._most, len(self._waiting))
                await self._write_batch([self._waiting.popleft() for _ in range(count)])
        finally:
            # Before any caller runs: one that submits again at once must find the lane gone, not about to go.
            self._busy -= {asyncio.current_task()}

    async def _write_batch(self, batch: list[tuple[Item, asyncio.Future[Answer]]]) -> None:
        self._size.observe(len(batch))
        try:
            answers = await self._write([item for item, _ in batch])
            answered = list(zip(batch, answers, strict=True))
        except asyncio.CancelledError:
            for _, future in batch:
                future.cancel()
            raise
        except Exception as error:  # noqa: BLE001  handed on to the callers, whose errors these are
            await self._split(batch, error)
            return
        for (_, future), answer in answered:
            if not future.done():
                future.set_result(answer)

    async def _split(self, batch: list[tuple[Item, asyncio.Future[Answer]]], error: Exception) -> None:
        if len(batch) > 1 and not isinstance(error, Unavailable):
            half = len(batch) // 2
            await self._write_batch(batch[:half])
            await self._write_batch(batch[half:])
            return
        for _, future in batch:
            if not future.done():
                future.set_exception(error)
