"""What the demo claims, counted: each line is a question to the database, the disk or the alert sink."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from demo_sink import AlertSink
from PIL import Image, UnidentifiedImageError
from thumbnails import SIZES

Execute = Callable[[str], str]
UNKNOWN = 20


@dataclass(frozen=True)
class Line:
    """A claim: what was expected and what was found."""

    name: str
    what: str
    expected: object
    found: object
    at_least: bool = False

    @property
    def holds(self) -> bool:
        """Whether it is so."""
        if self.at_least:
            return isinstance(self.found, int) and isinstance(self.expected, int) and self.found >= self.expected
        return self.found == self.expected


def check_all(
    execute: Execute, customers: list[UUID], sink: AlertSink, folder: Path, photographs: list[Path], killed: list[str]
) -> list[Line]:
    """Every claim of the demo."""

    def count(query: str) -> int:
        return int(execute(query))

    slow = [one for one in customers if one.int % 20 == 0]
    listed = ", ".join(f"'{one}'" for one in slow)
    jobs = "SELECT count(*) FROM mainspring.jobs WHERE task = 'billing.charge'"
    return [
        Line("accepted", "charges accepted", len(customers) + UNKNOWN, count(jobs)),
        Line("succeeded", "charges succeeded", len(customers), count(f"{jobs} AND state = 'succeeded'")),
        Line("lost", "jobs of any kind without an end", 0, count(UNFINISHED)),
        Line("payments", "payments in the books", len(customers), count("SELECT count(*) FROM demo.payments")),
        Line("charged_twice", "customers charged twice", 0, count(CHARGED_TWICE)),
        Line("retried", "charged after the gateway had timed out", len(slow), count(RETRIED.format(customers=listed))),
        Line("dead", "unknown customers among the dead letters", UNKNOWN, count(DEAD)),
        Line("alerted", "of these, alerts that a webhook received", UNKNOWN, len(sink.ids)),
        Line(
            "pictures",
            "thumbnails with the right dimensions",
            len(photographs) * len(SIZES),
            pictures(folder, photographs),
        ),
        Line("fires", "nominal times of the schedule, each with one job", *fires(execute), at_least=True),
        Line("fires_missed", "nominal times without exactly one job", 0, count(FIRES_MISSED)),
        Line("summaries_wrong", "fired jobs without exactly one summary", 0, count(SUMMARIES_WRONG)),
        Line("killed", "killed or restarted", "worker, scheduler, dispatcher, broker", ", ".join(killed)),
        Line("worker_lost", "attempts that the history shows as lost with the worker", 1, count(LOST), at_least=True),
        Line("unexplained", "successes with more than one attempt and no trace of why", 0, count(UNEXPLAINED)),
        Line("outbox", "batches left unpublished", 0, count("SELECT count(*) FROM mainspring.outbox")),
    ]


UNFINISHED = "SELECT count(*) FROM mainspring.jobs WHERE state NOT IN ('succeeded', 'cancelled', 'dead')"
CHARGED_TWICE = "SELECT count(*) FROM (SELECT FROM demo.payments GROUP BY customer, month HAVING count(*) > 1) AS twice"
DEAD = """
SELECT count(*) FROM mainspring.dead_letters JOIN mainspring.jobs ON jobs.id = dead_letters.job_id
WHERE jobs.state = 'dead' AND jobs.reason = 'permanent' AND dead_letters.error ->> 'type' = 'Permanent'
"""
RETRIED = """
SELECT count(*) FROM mainspring.jobs
WHERE task = 'billing.charge' AND state = 'succeeded' AND attempt > 1 AND payload ->> 'customer' IN ({customers})
"""
FIRES_MISSED = """
WITH bounds AS (SELECT min(nominal_at) AS first, max(nominal_at) AS last FROM mainspring.fires),
expected AS (SELECT generate_series(first, last, interval '3 seconds') AS nominal_at FROM bounds)
SELECT count(*) FROM expected WHERE 1 <> (
    SELECT count(*) FROM mainspring.jobs
    WHERE jobs.schedule = 'summary' AND jobs.nominal_at = expected.nominal_at AND jobs.state = 'succeeded'
)
"""
SUMMARIES_WRONG = """
SELECT count(*) FROM mainspring.fires
WHERE job_id IS NOT NULL
    AND 1 <> (SELECT count(*) FROM demo.summaries WHERE summaries.nominal_at = fires.nominal_at)
"""
LOST = "SELECT count(*) FROM mainspring.attempts WHERE outcome = 'worker_lost'"
UNEXPLAINED = """
SELECT count(*) FROM mainspring.jobs WHERE state = 'succeeded' AND attempt <> (
    SELECT count(*) FROM mainspring.attempts WHERE attempts.job_id = jobs.id
)
"""


def fires(execute: Execute) -> tuple[int, int]:
    """At least five nominal times, and how many fired."""
    return 5, int(execute("SELECT count(*) FROM mainspring.fires WHERE job_id IS NOT NULL"))


def pictures(folder: Path, photographs: list[Path]) -> int:
    """Thumbnails on disk whose longer side is what was asked for, and whose shape is the photograph's."""
    return sum(is_right(folder / f"{one.stem}-{size}.jpg", one, size) for one in photographs for size in SIZES)


def is_right(path: Path, photograph: Path, size: int) -> bool:
    """Open both and compare."""
    try:
        with Image.open(path) as small, Image.open(photograph) as whole:
            small.load()
            shape = [max(1, round(side * size / max(whole.size))) for side in whole.size]
            return list(small.size) == shape and max(small.size) == size
    except (OSError, UnidentifiedImageError):
        return False
