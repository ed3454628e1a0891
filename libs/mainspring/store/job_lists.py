"""Jobs by filter, page by page, the newest first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from mainspring.domain.ids import first_id_at
from mainspring.domain.job import check_instant
from mainspring.domain.states import State
from mainspring.store.pool import Conn
from mainspring.store.sql import load

_SQL = load("job_lists")
_LAST_ID = UUID(int=2**128 - 1)
_FIRST_ID = UUID(int=0)


@dataclass(frozen=True, slots=True)
class JobFilter:
    """What a job must be, have or lie between to be listed; what is None or empty asks for nothing.

    Raises InvalidInput naming ``since`` or ``until``.
    """

    states: tuple[State, ...] = ()
    queue: str | None = None
    task: str | None = None
    schedule: str | None = None
    tag: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def __post_init__(self) -> None:
        check_instant("since", self.since)
        check_instant("until", self.until)


async def page(connection: Conn, wanted: JobFilter, before: UUID | None, most: int) -> list[Any]:
    """At most ``most`` rows of the ``jobs`` view with ids below ``before``, the highest id first.

    Ids grow with the time of submission, so pages stay put while jobs are added.
    """
    until = _first_id(wanted.until) if wanted.until else _LAST_ID
    return list(
        await connection.fetch(
            _SQL["page"],
            min(before or _LAST_ID, until),
            _first_id(wanted.since) if wanted.since else _FIRST_ID,
            list(wanted.states) or None,
            wanted.queue,
            wanted.task,
            wanted.schedule,
            wanted.tag,
            most,
        )
    )


def _first_id(instant: datetime) -> UUID:
    return first_id_at(int(instant.timestamp() * 1000))
