"""The leader's duties: what one process does for all. Each commits only under the leader's term."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from mainspring.runtime.leader import Leadership
from mainspring.runtime.loop import Pass
from mainspring.store import fleet, partitions

WORKERS_SHOWN = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Lead:
    """The loop's configuration."""

    leadership: Leadership

    async def run_once(self) -> Pass:
        """Make partitions ahead; forget workers that are long gone."""
        async with self.leadership.transaction() as connection:
            if connection is None:
                return Pass()
            made = await partitions.ensure(connection)
            await fleet.forget_lost_workers(connection, WORKERS_SHOWN)
        return Pass(done=made)
