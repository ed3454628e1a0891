"""The auditor's questions: what must never be, asked of the rows. Any answer is a finding."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from mainspring.store.pool import Conn
from mainspring.store.sql import load

_SQL = load("audit")
_SOON = timedelta(seconds=30)
#: Every check, and how long what it looks for is given to be mended by the loop whose work it is.
CHECKS: dict[str, timedelta] = {
    "lease_overdue": _SOON,
    "due_and_not_released": timedelta(minutes=1),
    "unclaimed_and_not_sent_again": timedelta(minutes=10),
    "retry_overdue": _SOON,
    "expiry_overdue": _SOON,
    "outbox_overdue": _SOON,
    "schedule_overdue": _SOON,
    "alert_overdue": timedelta(minutes=5),
    # One transaction writes these rows, so a snapshot holds all of them or none.
    "success_without_job": timedelta(0),
    "success_without_completion": timedelta(0),
    "dead_without_letter": timedelta(0),
    "live_and_finished": timedelta(0),
    "attempt_of_a_later_fence": timedelta(0),
    "released_without_details": timedelta(0),
    "fire_without_job": timedelta(0),
    "row_outside_partitions": timedelta(0),
    "partition_of_tomorrow_missing": timedelta(days=1),
}


class AuditFinding(NamedTuple):
    """Something that must not be: the check that found it, the job if there is one, what it concerns."""

    check: str
    job_id: UUID | None
    subject: str


async def look(connection: Conn, check: str, patience: timedelta | None = None) -> list[AuditFinding]:
    """Up to twenty findings of one check of CHECKS."""
    rows = await connection.fetch(_SQL[check], CHECKS[check] if patience is None else patience)
    return [AuditFinding(check, row["job_id"], row["subject"]) for row in rows]


async def note(connection: Conn, findings: Sequence[AuditFinding]) -> None:
    """Write findings into the history."""
    columns = ([one.job_id for one in findings], [one.check for one in findings], [one.subject for one in findings])
    await connection.execute(_SQL["note"], *columns)
