"""One JSON line on stderr for each start and each end of an attempt, written once for each turn of the event loop.

The lines are made by hand since a busy worker writes ten thousand a second; they look like all others. Every
value in them is an id, a number or a name of our own alphabet, so nothing needs escaping.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from datetime import UTC, datetime

from mainspring.domain.settlement import Verdict
from mainspring.domain.states import Outcome
from mainspring.worker.attempt import Attempt

_LOGGER = logging.getLogger("mainspring.jobs")


class JobLog:
    """Collects lines and writes them together."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def started(self, attempt: Attempt) -> None:
        """Say that an attempt has started."""
        self._add("attempt started", attempt, "")

    def ended(self, attempt: Attempt, outcome: Outcome, verdict: Verdict | None = None) -> None:
        """Say how an attempt ended, and what follows."""
        more = f', "duration": {attempt.seconds():.6f}, "outcome": "{outcome.value}"'
        if verdict is not None:
            more += f', "state": "{verdict.state.value}", "delay": {verdict.delay.total_seconds():.3f}'
        self._add("attempt ended", attempt, more)

    def _add(self, event: str, attempt: Attempt, more: str) -> None:
        if not _LOGGER.isEnabledFor(logging.INFO):
            return
        if not self._lines:
            asyncio.get_running_loop().call_soon(self._write)
        job = attempt.job
        self._lines.append(
            f'{{"event": "{event}", "job_id": "{job.id}", "task": "{job.task}", "queue": "{job.queue}", '
            f'"attempt": {job.attempt}{more}'
        )

    def _write(self) -> None:
        lines, self._lines = self._lines, []
        common = f', "service": "worker", "level": "info", "at": "{datetime.now(UTC).isoformat()}"}}\n'
        sys.stderr.write("".join(line + common for line in lines))
