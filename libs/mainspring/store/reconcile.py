"""Finding what the broker has lost: its whole memory, a retry's message, or a message nobody claimed."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID, uuid4

from mainspring.domain.job import JobRef
from mainspring.domain.states import State
from mainspring.store.pool import Conn
from mainspring.store.sql import load

_SQL = load("reconcile")
CHUNK = 5000


@dataclass(frozen=True, slots=True)
class Epoch:
    """What the broker is expected to remember."""

    id: UUID
    topology_version: int
    #: How long ago it began.
    age: timedelta = field(default=timedelta(0), compare=False)


class Unclaimed(NamedTuple):
    """A job whose message is to be sent again, to where it was last."""

    queue: str
    is_admitted: bool
    ref: JobRef


async def epoch(connection: Conn) -> Epoch:
    """The current epoch."""
    row = await connection.fetchrow(_SQL["epoch"])
    assert row is not None  # noqa: S101  the migration inserts it
    return Epoch(row["epoch"], row["topology_version"], row["age"])


async def change_epoch(connection: Conn, old: Epoch, topology_version: int) -> Epoch | None:
    """Begin a new epoch, unless another scheduler has done so since ``old`` was read (then None)."""
    new = uuid4()
    row = await connection.fetchrow(_SQL["change_epoch"], old.id, new, topology_version)
    return Epoch(new, topology_version) if row else None


async def now(connection: Conn) -> datetime:
    """Postgres's clock."""
    instant: datetime = await connection.fetchval(_SQL["now"])
    return instant


async def reschedule_forgotten(connection: Conn, released_until: datetime, queue: str | None = None) -> int:
    """Schedule again up to CHUNK jobs that the forgotten broker held; call it until it returns 0.

    ``queue``: only those that were released into this one, which was gone.
    """
    count: int = await connection.fetchval(_SQL["reschedule_forgotten"], released_until, CHUNK, queue)
    return count


async def reschedule_retries(connection: Conn, overdue: timedelta) -> int:
    """Schedule again the retries whose ladder message is missing for ``overdue``."""
    count: int = await connection.fetchval(_SQL["reschedule_retries"], overdue)
    return count


async def bury_overdue(connection: Conn) -> dict[str, list[JobRef]]:
    """Bury waiting jobs whose expiry has passed; their new tickets by queue, to be announced."""
    buried: dict[str, list[JobRef]] = {}
    for row in await connection.fetch(_SQL["bury_overdue"]):
        buried.setdefault(row["queue"], []).append(JobRef(row["id"], row["fence"]))
    return buried


async def take_unclaimed(connection: Conn, first_wait: timedelta) -> list[Unclaimed]:
    """Jobs that were sent and not claimed, due to be sent again under the same ticket."""
    rows = await connection.fetch(_SQL["take_unclaimed"], first_wait)
    return [
        Unclaimed(row["queue"], row["state"] == State.ADMITTED.value, JobRef(row["id"], row["fence"])) for row in rows
    ]


async def rescheduled_since(connection: Conn, since: datetime) -> int:
    """How many jobs were scheduled again since then because the broker had forgotten them."""
    count: int = await connection.fetchval(_SQL["rescheduled_since"], since)
    return count
