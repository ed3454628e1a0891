"""Having the broker's topology made anew on demand: ``mainspring doctor --rebuild-broker``."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from mainspring.broker import delay_ladder, topology
from mainspring.broker.connection import Link, connect
from mainspring.broker.probe import delete_queues, look_at
from mainspring.domain.errors import MainspringError
from mainspring.runtime.settings import Settings
from mainspring.store import queues, reconcile, server
from mainspring.store.pool import Database
from mainspring.store.reconcile import Epoch

#: A scheduler misses the epoch's queue within its probe's interval (2 s); 100,000 jobs take it a few seconds.
PATIENCE_SECONDS = 60.0
LOOK_SECONDS = 0.2


class NotRebuilt(MainspringError):
    """No scheduler began a new epoch."""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What was done."""

    queues_deleted: int
    jobs_released_again: int
    seconds: float


async def rebuild_broker(settings: Settings) -> Rebuilt:
    """Delete the queues of waiting work, and wait until a scheduler has made them again and released every job.

    Dead letters' messages stay. Raises NotRebuilt when no scheduler runs, BrokerUnavailable, DatabaseUnavailable.
    """
    started = time.monotonic()
    async with Database(settings.database_url, "doctor", most=1) as database:
        if not await database.run(server.has_leader):
            raise NotRebuilt("no scheduler runs, and it is a scheduler that declares and releases: start one first")
        since = await database.run(reconcile.now)
        old = await database.run(reconcile.epoch)
        names = [topology.delay_queue(level) for level in range(delay_ladder.LEVELS)]
        for queue in await database.run(queues.all_queues):
            names += [one.name for one in topology.for_queue(queue.name).queues]
        link = await connect(settings.amqp_url, "doctor")
        try:
            await delete_queues(link, names)
            # The last one: what a scheduler noticed and made in between is begun anew with it.
            await delete_queues(link, [topology.epoch_queue(str(old.id)).name])
            await _until_new_epoch(database, link, old, names)
        finally:
            await link.close()
        moved = await database.run(lambda connection: reconcile.rescheduled_since(connection, since))
    return Rebuilt(len(names), moved, round(time.monotonic() - started, 1))


async def _until_new_epoch(database: Database, link: Link, old: Epoch, names: list[str]) -> None:
    """The new epoch's queue is declared last, when all else is done; and nothing was deleted after it was made."""
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < give_up_at:
        epoch = await database.run(reconcile.epoch)
        if epoch != old and not (await look_at(link, [topology.epoch_queue(str(epoch.id)).name, *names])).missing:
            return
        await asyncio.sleep(LOOK_SECONDS)
    raise NotRebuilt(f"no scheduler has declared the queues again within {PATIENCE_SECONDS:g} s: look at its log")
