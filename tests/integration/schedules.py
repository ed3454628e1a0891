"""Schedules for tests that fire them without a scheduler process."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from mainspring.broker.publisher import Publisher
from mainspring.domain.definition import ScheduleDefinition
from mainspring.domain.firing import Overlap
from mainspring.runtime import schedule_changes
from mainspring.store import fires, fleet, schedules
from mainspring.store.pool import Database
from mainspring.store.release import Bounds
from mainspring.store.schedules import StoredSchedule
from mainspring_services.scheduler.fire_due import FireDue
from mainspring_services.scheduler.queue_topology import QueueTopology
from mainspring_services.scheduler.release_due import ReleaseDue


def firing(database: Database) -> FireDue:
    """The loop that fires; what it releases waits to be published, for nobody runs the release."""
    nowhere = "amqp://127.0.0.1:1"
    releases = ReleaseDue(database, Publisher(nowhere, "test"), QueueTopology(nowhere), Bounds(), 1000)
    return FireDue(database, releases)


async def save(database: Database, name: str, **fields: Any) -> None:
    """Create or replace a schedule."""
    definition = ScheduleDefinition(name, "t", **{"overlap": Overlap.ALLOW, **fields})
    await database.run_in_transaction(lambda connection: schedule_changes.save(connection, definition))


async def make_due(database: Database, name: str, ago: timedelta) -> datetime:
    """Move the schedule's next nominal time into the past, onto its own grid, and its beginning before that."""
    async with database.connection() as connection:
        row = await schedules.get(connection, name)
        assert row is not None
        trigger = row.definition().trigger(row.anchor)
        nominal_at = trigger.next_after(await fleet.now(connection) - ago)
        assert nominal_at is not None
        await connection.execute(
            "UPDATE mainspring.schedules SET next_nominal_at = $2, fires_at = $2, active_since = $3 WHERE name = $1",
            *(name, nominal_at, nominal_at - timedelta(microseconds=1)),
        )
        return nominal_at


async def stored(database: Database, name: str) -> StoredSchedule:
    """The schedule as it stands."""
    async with database.connection() as connection:
        found = await schedules.get(connection, name)
    assert found is not None
    return found


async def fires_of(database: Database, name: str) -> list[Any]:
    """What became of its nominal times, the latest first."""
    async with database.connection() as connection:
        return await fires.of(connection, name, None, 1000)


async def jobs_of(database: Database, name: str) -> list[Any]:
    """Its jobs in the order of their nominal times."""
    async with database.connection() as connection:
        return list(
            await connection.fetch("SELECT * FROM mainspring.jobs WHERE schedule = $1 ORDER BY nominal_at", name)
        )
