"""One JSON line on stderr for each start and each end of an attempt, written in batches.

The lines are made by hand since a busy worker writes ten thousand a second; they look like all others.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from mainspring.worker.attempt import Attempt

_LOGGER = logging.getLogger("mainspring.jobs")


def log_started(attempts: Iterable[Attempt]) -> None:
    """Say that these attempts have started."""
    if _LOGGER.isEnabledFor(logging.INFO):
        _write(_fields("attempt started", attempt) for attempt in attempts)


def log_ended(ended: Iterable[tuple[Attempt, str, dict[str, Any]]]) -> None:
    """Say how these attempts ended: the outcome, and what follows."""
    if _LOGGER.isEnabledFor(logging.INFO):
        _write(
            _fields("attempt ended", attempt) | {"duration": round(attempt.seconds(), 6), "outcome": outcome, **more}
            for attempt, outcome, more in ended
        )


def _fields(event: str, attempt: Attempt) -> dict[str, Any]:
    job = attempt.job
    return {
        "event": event,
        "job_id": str(job.id),
        "task": job.task,
        "queue": job.queue,
        "attempt": job.attempt,
    }


def _write(lines: Iterable[dict[str, Any]]) -> None:
    common = {"level": "info", "at": datetime.now(UTC).isoformat(), "service": "worker"}
    text = "".join(json.dumps(line | common) + "\n" for line in lines)
    if text:
        sys.stderr.write(text)
