"""What people do to schedules, for the api and the Python client alike. Each works in the caller's transaction."""

from __future__ import annotations

import json
from uuid import UUID

from mainspring.domain.definition import ScheduleDefinition
from mainspring.domain.errors import Conflict, NotFound
from mainspring.domain.job import JobRequest
from mainspring.runtime.replay import once
from mainspring.runtime.submit import Accepted, submit_in
from mainspring.store import fleet, schedules
from mainspring.store.pool import Conn
from mainspring.store.schedules import StoredSchedule


async def found(connection: Conn, name: str) -> StoredSchedule:
    """The schedule. Raises NotFound."""
    one = await schedules.get(connection, name)
    if one is None:
        raise NotFound(f"no schedule {name}")
    return one


async def save(connection: Conn, definition: ScheduleDefinition, *, is_new: bool = False) -> StoredSchedule:
    """Create or replace a schedule. Raises Conflict when it ``is_new`` and its name is taken."""
    await schedules.lock_name(connection, definition.name)
    if is_new and await schedules.get(connection, definition.name) is not None:
        raise Conflict(f"there is a schedule {definition.name} already")
    await schedules.save(connection, definition, await fleet.now(connection))
    return await found(connection, definition.name)


async def set_paused(connection: Conn, name: str, paused: bool, note: str | None = None) -> StoredSchedule:
    """Pause or resume; resumed, it waits for its first nominal time after now. Raises NotFound."""
    one = await schedules.lock(connection, name)
    if one is None:
        raise NotFound(f"no schedule {name}")
    await schedules.set_paused(connection, one, paused, note, await fleet.now(connection))
    return await found(connection, name)


async def trigger(
    connection: Conn, name: str, *, idempotency_key: str | None = None, traceparent: str | None = None
) -> Accepted:
    """Make a job of it now, beside its nominal times. Raises NotFound, InvalidInput.

    A repeat with its key gets the first answer, whatever has become of the schedule since.
    """

    async def work() -> str:
        (made,) = await submit_in(connection, [await _request(connection, name, traceparent)])
        return made.answer

    answer, is_replayed = await once(connection, "trigger", idempotency_key, name, work)
    return Accepted(UUID(json.loads(answer)["id"]), answer, is_replayed)


async def _request(connection: Conn, name: str, traceparent: str | None) -> JobRequest:
    one = await schedules.lock(connection, name)
    if one is None:
        raise NotFound(f"no schedule {name}")
    return one.definition().request(traceparent=traceparent)
