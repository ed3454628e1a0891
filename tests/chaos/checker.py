"""What a chaos run is judged by: the ledger, what the client was told, and the rows. Shares no code with the product.

The counters are those of Jepsen's total-queue checker, and some of our own: https://jepsen.io/ , "checker/total-queue".
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, fields

Query = Callable[[str], str]
#: How many of the `narrow` queue may run at once.
LIMIT = 3
#: How many of `chaos.rated` may start in a second.
RATE = 5


@dataclass(frozen=True, slots=True)
class Report:
    """Counters; all of the last ten must be 0."""

    accepted: int
    succeeded: int
    dead: int
    cancelled: int
    lost: int
    unexpected: int
    effects_duplicated: int
    stale_writes_accepted: int
    fires_missed: int
    fires_doubled: int
    limits_exceeded: int
    attempts_burnt_by_stops: int
    slots_leaked: int
    messages_left: int

    @property
    def is_clean(self) -> bool:
        """True when nothing was lost, doubled, leaked or left."""
        return not any(getattr(self, field.name) for field in fields(self)[4:])


def check(query: Query, accepted: dict[str, str], messages_left: int) -> Report:
    """Judge a run that has come to rest. ``accepted``: the jobs that the client was promised, with their ends."""
    states = dict(_rows(query, "SELECT id::text, state FROM mainspring.jobs WHERE schedule IS NULL"))
    counts = dict(_rows(query, "SELECT state, count(*)::int FROM mainspring.jobs GROUP BY state"))
    return Report(
        accepted=len(accepted),
        succeeded=counts.get("succeeded", 0),
        dead=counts.get("dead", 0),
        cancelled=counts.get("cancelled", 0),
        lost=sum(states.get(job) not in ("succeeded", "dead", "cancelled") for job in accepted),
        unexpected=sum(states.get(job, expected) != expected for job, expected in accepted.items() if job in states)
        + sum(job not in accepted for job in states),
        effects_duplicated=_count(query, DUPLICATED),
        stale_writes_accepted=_count(query, STALE),
        fires_missed=_count(query, MISSED),
        fires_doubled=_count(query, DOUBLED),
        limits_exceeded=_limits_exceeded(query),
        attempts_burnt_by_stops=_count(query, BURNT),
        slots_leaked=_count(query, "SELECT count(*) FROM mainspring.live_jobs WHERE state IN ('admitted', 'running')"),
        messages_left=messages_left,
    )


#: Jobs with more than one effect.
DUPLICATED = "SELECT count(*) FROM (SELECT job FROM chaos.effects GROUP BY job HAVING count(*) > 1) AS twice"
#: Effects of an attempt that isn't the one that succeeded; and a success of a task with effects that has none.
STALE = """
SELECT
    (
        SELECT count(*) FROM chaos.effects
        WHERE NOT EXISTS (
            SELECT FROM mainspring.attempts
            WHERE attempts.job_id = effects.job AND attempts.fence = effects.fence AND attempts.outcome = 'succeeded'
        )
    ) + (
        SELECT count(*) FROM mainspring.jobs
        WHERE state = 'succeeded' AND task IN (
                'chaos.quick', 'chaos.slow', 'chaos.flaky', 'chaos.scheduled', 'chaos.batched', 'chaos.shaky'
            )
            AND reason IS NULL AND NOT EXISTS (SELECT FROM chaos.effects WHERE effects.job = jobs.id)
    )
"""
#: Nominal times of the schedule, from its first fire to its last, that have no row.
MISSED = """
SELECT coalesce(
    (extract(epoch FROM max(last_nominal_at) - min(nominal_at)) / 2 + 1)::int - sum(nominal_times)::int, 0
) FROM mainspring.fires WHERE schedule = 'each-2s'
"""
DOUBLED = """
SELECT count(*) FROM (
    SELECT nominal_at FROM mainspring.jobs WHERE schedule = 'each-2s' GROUP BY nominal_at HAVING count(*) > 1
) AS twice
"""
#: Starts and ends of the limited task, where both are known. A line that was committed and told failed is there twice.
RUNS = """
SELECT extract(epoch FROM begun.at)::float, extract(epoch FROM ended.at)::float
FROM (SELECT job, fence, min(at) AS at FROM chaos.ledger WHERE what = 'start' GROUP BY job, fence) AS begun
JOIN (SELECT job, fence, max(at) AS at FROM chaos.ledger WHERE what = 'end' GROUP BY job, fence) AS ended
    ON ended.job = begun.job AND ended.fence = begun.fence
JOIN mainspring.jobs ON jobs.id = begun.job AND jobs.task = 'chaos.limited'
"""
KEYS = "SELECT DISTINCT payload ->> 'key', 1 FROM mainspring.jobs WHERE task = 'chaos.limited'"
LIMITS = "SELECT name, most FROM mainspring.limits WHERE name IS NOT NULL"
RATED = """
SELECT extract(epoch FROM attempts.started_at)::float, 1
FROM mainspring.attempts JOIN mainspring.jobs ON jobs.id = attempts.job_id AND jobs.task = 'chaos.rated'
WHERE attempts.started_at IS NOT NULL
"""
#: Jobs whose budget was charged for more attempts than ended in a way that counts.
BURNT = """
SELECT count(*) FROM mainspring.jobs
WHERE attempts_used > (
    SELECT count(*) FROM mainspring.attempts
    WHERE attempts.job_id = jobs.id AND attempts.outcome NOT IN ('handed_back', 'snoozed')
)
"""


def _limits_exceeded(query: Query) -> int:
    exceeded = _exceeded(_rows(query, RUNS), LIMIT)
    if not _rows(query, LIMITS):
        return exceeded
    for key, _ in _rows(query, KEYS):
        exceeded += _exceeded(_rows(query, f"{RUNS} AND jobs.payload ->> 'key' = '{key}'"), 1)
    return exceeded + _too_fast([start for start, _ in _rows(query, RATED)])


def _exceeded(runs: list[list[float]], limit: int) -> int:
    """At how many starts more than ``limit`` ran at once."""
    turns = sorted(
        [(start, 1) for start, _ in runs] + [(end, -1) for _, end in runs], key=lambda turn: (turn[0], turn[1])
    )
    running = exceeded = 0
    for _, change in turns:
        running += change
        exceeded += change > 0 and running > limit
    return exceeded


def _too_fast(starts: list[float]) -> int:
    """How many starts had RATE others in the second before."""
    starts = sorted(starts)
    return sum(start - before < 1.0 for before, start in zip(starts, starts[RATE:], strict=False))


def _count(query: Query, sql: str) -> int:
    return int(query(sql))


def _rows(query: Query, sql: str) -> list[list]:
    found = query(f"SELECT coalesce(json_agg(json_build_array(a, b)), '[]') FROM ({sql}) AS one (a, b)")
    rows: list[list] = json.loads(found)
    return rows
