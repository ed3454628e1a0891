"""Publishing again what another scheduler committed and didn't publish: it crashed, or its confirm was lost."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from mainspring.runtime.loop import Pass
from mainspring.store import release
from mainspring.store.pool import Database
from mainspring.telemetry import metrics
from mainspring.telemetry.logs import get_logger
from mainspring_services.scheduler.queue_topology import QueueTopology
from mainspring_services.scheduler.release_due import ReleaseDue

log = get_logger(__name__)
OLDER_THAN = timedelta(seconds=2)


@dataclass(frozen=True, slots=True)
class RepublishOutbox:
    """The loop's configuration."""

    database: Database
    releases: ReleaseDue
    topology: QueueTopology

    async def run_once(self) -> Pass:
        """Publish stale outbox rows; the same tickets, so a second copy changes nothing."""
        batches, age = await self.database.run_in_transaction(
            lambda connection: release.take_stale_outbox(connection, OLDER_THAN)
        )
        metrics.OUTBOX_AGE.set(age)
        for queue in {batch.queue for batch in batches}:
            await self.topology.declare_queue(queue)
        if batches:
            await self.releases.publish(batches)
            self.releases.wake_up()  # which deletes the rows
            # Whoever lent these queues is late, or gone.
            await self.releases.lending.take_back({batch.queue for batch in batches})
            metrics.OUTBOX_REPUBLISHED.inc(len(batches))
            log.info("outbox published again", batches=len(batches), oldest_seconds=round(age, 1))
        # Until there is none: the gauge of their age is back at 0 then.
        return Pass(done=len(batches), again=bool(batches))
