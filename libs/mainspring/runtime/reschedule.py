"""What the broker has lost is released again: the rows know which jobs it held."""

from __future__ import annotations

from mainspring.store import reconcile
from mainspring.store.pool import Database
from mainspring.telemetry import metrics
from mainspring.telemetry.logs import get_logger

log = get_logger(__name__)


async def reschedule(database: Database, queue: str | None = None) -> int:
    """Schedule again every job that the broker holds by now, or that is in one queue; returns how many.

    A message that isn't lost brings an old ticket then, and is dropped. Raises DatabaseUnavailable.
    """
    until = await database.run(reconcile.now)
    moved = 0
    while count := await database.run(lambda connection: reconcile.reschedule_forgotten(connection, until, queue)):
        moved += count
    return moved


async def reschedule_lost(database: Database, queue: str) -> None:
    """A returned message has shown that something of a queue was gone: whatever was in it may be lost."""
    moved = await reschedule(database, queue)
    metrics.RECONCILED.labels("queue_missing").inc(moved)
    log.error("a queue was gone: what the broker held of it is released again", queue=queue, jobs=moved)
