"""Extending leases, and finding those that expired. Only Postgres's clock decides which is which."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from mainspring.domain.retry import policy_from
from mainspring.domain.settlement import Standing
from mainspring.store.pool import Conn
from mainspring.store.sql import load

_SQL = load("leases")


class Beat(StrEnum):
    """What a heartbeat finds for one attempt."""

    EXTENDED = "extended"
    CANCEL_REQUESTED = "cancel_requested"
    BUSY = "busy"
    GONE = "gone"


class Hold(NamedTuple):
    """A lease that a worker believes to hold."""

    id: UUID
    fence: int
    claim_id: UUID


@dataclass(frozen=True, slots=True)
class ExpiredLease:
    """A running job whose lease is over, locked by this transaction."""

    hold: Hold
    queue: str
    task: str
    standing: Standing


async def extend(connection: Conn, holds: Sequence[Hold], lease: timedelta) -> dict[UUID, Beat]:
    """Extend all of ``holds`` in one statement; one answer for each."""
    ids, fences, claim_ids = zip(*holds, strict=True)
    rows = await connection.fetch(_SQL["extend"], ids, fences, claim_ids, lease)
    return {row["id"]: Beat(row["beat"]) for row in rows}


async def look(connection: Conn) -> tuple[datetime, bool]:
    """Postgres's clock, and whether a lease is over by it."""
    [row] = await connection.fetch(_SQL["look"])
    return row["now"], row["has_expired"]


async def lock_expired(connection: Conn, most: int) -> list[ExpiredLease]:
    """Lock up to ``most`` expired leases that nobody is settling. Call it in a transaction that settles them."""
    return [
        ExpiredLease(
            Hold(row["id"], row["fence"], row["claim_id"]),
            row["queue"],
            row["task"],
            Standing(
                row["attempts_used"],
                policy_from(json.loads(row["retry"])),
                row["hand_backs"],
                row["cancel_requested"],
            ),
        )
        for row in await connection.fetch(_SQL["lock_expired"], most)
    ]
