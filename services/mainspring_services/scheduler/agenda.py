"""One look at the rows for all loops that wait for some: those that have something to do are woken.

Most looks find nothing, so that one statement in place of one for each loop is what an idle scheduler costs. A loop
knows nothing of it: it looks by itself when it is woken, and each IDLE_SECONDS if nobody wakes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from mainspring.runtime.loop import Loop, Pass
from mainspring.store import agenda
from mainspring.store.pool import Database
from mainspring_services.scheduler.queue_topology import QueueTopology
from mainspring_services.scheduler.reconcile import RETRY_OVERDUE
from mainspring_services.scheduler.republish_outbox import OLDER_THAN

#: How often a loop of the agenda looks when it isn't woken.
IDLE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Agenda:
    """The loop's configuration: whom it wakes, by name.

    A loop that has something to do at an instant is woken ``ahead`` of it, and waits for it by itself: ``ahead`` is
    longer than the time between two looks.
    """

    database: Database
    topology: QueueTopology
    loops: Mapping[str, Loop]
    ahead: timedelta

    async def run_once(self) -> Pass:
        """Look once."""
        found = await self.database.run(
            lambda connection: agenda.look(
                connection,
                ahead=self.ahead,
                unpublished_for=OLDER_THAN,
                retry_overdue=RETRY_OVERDUE,
                queues=self.topology.count,
            )
        )
        for name in found:
            self.loops[name].wake.set()
        return Pass(done=len(found))
