"""Alerting dead letters: many in one alert, recorded when it was accepted.

Rows decide what is to be alerted, messages only make it prompt: a row whose message was lost is found by its
age. Two handlers may send the same alert twice; none is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from mainspring.fault_points import reach
from mainspring.runtime.batcher import Batcher
from mainspring.runtime.loop import Pass
from mainspring.store import dead_letters
from mainspring.store.pool import Database
from mainspring.telemetry import metrics
from mainspring_services.dlq_handler.webhook import Webhook


class Alert:
    """Sends alerts by id when asked, and by age as a loop."""

    def __init__(self, database: Database, webhook: Webhook, unalerted_after: timedelta) -> None:
        self._database = database
        self._webhook = webhook
        self._unalerted_after = unalerted_after
        self._by_id: Batcher[UUID, None] = Batcher("alert", self._send_batch, most=100)

    async def send_for(self, ids: Sequence[UUID]) -> None:
        """Alert these dead letters, unless that is done; returns when it is recorded. Raises Unavailable."""
        await asyncio.gather(*(self._by_id.enqueue(id_) for id_ in ids))

    async def run_once(self) -> Pass:
        """Alert what has waited too long: its message was lost, or it never had one."""
        await self._send([], self._unalerted_after)
        return Pass()

    async def _send_batch(self, ids: Sequence[UUID]) -> Sequence[None]:
        await self._send(ids, self._unalerted_after)
        return [None] * len(ids)

    async def _send(self, ids: Sequence[UUID], older_than: timedelta) -> None:
        letters = await self._database.run(lambda connection: dead_letters.take_unalerted(connection, ids, older_than))
        if not letters:
            return
        await self._webhook.send(letters)
        reach("alert.sent")
        await self._database.run(
            lambda connection: dead_letters.mark_alerted(connection, [letter.id for letter in letters])
        )
        for letter in letters:
            metrics.DEAD.labels(letter.reason).inc()
