"""The leader's duties: what one process does for all. Each commits only under the leader's term."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from mainspring.runtime.leader import Leadership
from mainspring.runtime.loop import Pass
from mainspring.store import fleet, limits, partitions, server
from mainspring.telemetry import metrics

WORKERS_SHOWN = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Lead:
    """The loop's configuration."""

    leadership: Leadership

    async def run_once(self) -> Pass:
        """Make partitions ahead; forget workers that are long gone, and rates of keys; watch the oldest transaction."""
        async with self.leadership.transaction() as connection:
            if connection is None:
                metrics.HORIZON.set(0)
                return Pass()
            metrics.HORIZON.set(await server.horizon(connection))
            made = await partitions.ensure(connection)
            await fleet.forget_lost_workers(connection, WORKERS_SHOWN)
            await limits.forget_rates(connection)
        return Pass(done=made)
