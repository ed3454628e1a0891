"""Ending attempts: the fenced writes. What changes nothing was stale, and is told apart from what did."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from mainspring.domain.dead_letter import fingerprint
from mainspring.domain.errors import MainspringError
from mainspring.domain.settlement import Verdict
from mainspring.domain.states import Event, State
from mainspring.store.pool import Conn
from mainspring.store.sql import load

_SQL = load("settle")


class Success(NamedTuple):
    """An attempt whose handler returned; ``result`` is JSON text or None."""

    id: UUID
    fence: int
    claim_id: UUID
    result: str | None


class Failure(NamedTuple):
    """An attempt that ended otherwise, and what was decided."""

    id: UUID
    fence: int
    claim_id: UUID
    task: str
    verdict: Verdict


async def succeed(connection: Conn, batch: Sequence[Success]) -> Mapping[UUID, bool]:
    """Settle successes: completion, attempt, final row, in one statement.

    Returns the ids that were applied, each with whether its idempotency key was complete already. An id that is
    missing was stale: its fence or claim id is no longer the job's.
    """
    ids, fences, claim_ids, results = zip(*batch, strict=True)
    rows = await connection.fetch(_SQL["succeed"], ids, fences, claim_ids, results)
    return {row["id"]: row["is_duplicate"] for row in rows}


async def fail(connection: Conn, batch: Sequence[Failure]) -> dict[UUID, int]:
    """Settle everything that is no success, as decided; returns the new fence of each job that was applied."""
    verdicts = [failure.verdict for failure in batch]
    rows = await connection.fetch(
        _SQL["fail"],
        [failure.id for failure in batch],
        [failure.fence for failure in batch],
        [failure.claim_id for failure in batch],
        [verdict.state.value for verdict in verdicts],
        [verdict.outcome.value for verdict in verdicts],
        [verdict.delay for verdict in verdicts],
        [verdict.reason.value if verdict.reason else None for verdict in verdicts],
        [verdict.counts for verdict in verdicts],
        [verdict.run_alone for verdict in verdicts],
        [json.dumps(verdict.error.as_json()) if verdict.error else None for verdict in verdicts],
        [event_of(verdict).value for verdict in verdicts],
        [fingerprint(failure.task, failure.verdict.reason or "", failure.verdict.error) for failure in batch],
    )
    return {row["id"]: row["fence"] for row in rows}


def event_of(verdict: Verdict) -> Event:
    """The transition that a verdict is."""
    if verdict.state is State.CANCELLED:
        return Event.STOP
    if verdict.state is State.DEAD:
        return Event.BURY
    # A hand-back that counts, from the tenth in a row on, is a failure like any other.
    return Event.RETRY if verdict.counts else Event.HAND_BACK


async def guard_handler_transaction(connection: Conn) -> None:
    """Check and bound a handler's transaction once its block is over.

    Raises MainspringError above READ COMMITTED: there a heartbeat of the same row would make the fenced write fail.
    """
    row = await connection.fetchrow(_SQL["guard_handler_transaction"])
    if row is not None and row["isolation"] != "read committed":
        raise MainspringError(f"ctx.transaction() must stay READ COMMITTED, not {row['isolation'].upper()}")
