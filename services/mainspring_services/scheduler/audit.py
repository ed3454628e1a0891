"""The auditor: a duty of the leader. It asks the rows for what must never be, says what it finds, and has it mended.

Whatever can be mended is mended by the loop whose work it is: the auditor only has that loop go once more. A finding is
a log line and an event when it is new, and part of a gauge as long as it stays.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from mainspring.runtime.leader import Leadership
from mainspring.runtime.loop import Pass
from mainspring.store import audit
from mainspring.store.audit import AuditFinding
from mainspring.store.pool import Database
from mainspring.telemetry import metrics
from mainspring.telemetry.logs import get_logger

log = get_logger(__name__)
Mend = Callable[[], Awaitable[object]]


class Audit:
    """The loop's configuration. ``mends``: what to do about the findings of a check."""

    def __init__(self, database: Database, leadership: Leadership, mends: Mapping[str, Mend]) -> None:
        self._database = database
        self._leadership = leadership
        self._mends = mends
        self._known: set[AuditFinding] = set()

    async def run_once(self) -> Pass:
        """Ask every question once."""
        if not self._leadership.is_held:
            # Another one leads, and its gauges count.
            self._known = set()
            for check in audit.CHECKS:
                metrics.AUDIT_FINDINGS.labels(check).set(0)
            return Pass()
        found: set[AuditFinding] = set()
        for check in audit.CHECKS:
            found.update(await self._ask(check))
        await self._note(found - self._known)
        for finding in self._known - found:
            log.info("audit finding is over", **_words(finding))
        self._known = found
        return Pass(done=len(found))

    async def _ask(self, check: str) -> list[AuditFinding]:
        findings = await self._database.run(lambda connection: audit.look(connection, check))
        metrics.AUDIT_FINDINGS.labels(check).set(len(findings))
        if findings and check in self._mends:
            await self._mends[check]()
        return findings

    async def _note(self, fresh: set[AuditFinding]) -> None:
        if not fresh:
            return
        for finding in fresh:
            log.error("audit finding", **_words(finding))
        async with self._leadership.transaction() as connection:
            if connection is not None:
                await audit.note(connection, sorted(fresh, key=str))


def _words(finding: AuditFinding) -> dict[str, str | None]:
    job_id = str(finding.job_id) if finding.job_id else None
    return {"check": finding.check, "job_id": job_id, "subject": finding.subject}
