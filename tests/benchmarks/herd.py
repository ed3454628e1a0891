"""Herd: many schedules due at one instant, three schedulers; and whether a fire costs more where more are defined."""

from __future__ import annotations

import time
from typing import Any

from .harness import System, per_job, whole_system

HERD = 50_000
DUE = 2_000
DEFINED = (1_000, 100_000, 1_000_000)
LEAD_SECONDS = 6

#: One-off schedules, all at one instant: what `PUT /v1/schedules/{name}` writes, without a request for each.
MAKE = """
INSERT INTO mainspring.schedules (name, task, at, overlap, queue, next_nominal_at, fires_at, created_at, active_since)
SELECT '{prefix}-' || n, 'bench.noop', {at}, 'skip', 'bench', {at}, {at}, clock_timestamp(), clock_timestamp()
FROM generate_series(1, {count}) AS n
"""

#: Workers that the fleet knows and that take nothing: with slots for all, so that no window holds any back.
ELSEWHERE = """
INSERT INTO mainspring.workers (id, host, pid, version, queues, tasks, slots, free_slots, beat_at)
SELECT
    gen_random_uuid(), 'elsewhere', 1, '0', '{bench}', '{bench.noop}', 100000, 0, clock_timestamp() + interval '1 hour'
"""


def run() -> dict[str, Any]:
    """One herd of HERD, then DUE of them among more and more that are defined."""
    with whole_system(slots=100, runners=1) as system:
        schedulers = [system.parts["scheduler"], *(system.fleet.start("scheduler") for _ in range(2))]
        system.parts |= {f"scheduler {number}": one for number, one in enumerate(schedulers[1:], 2)}
        system.fleet.wait_ready()
        system.http.put("/v1/queues/bench", json={"release_window": 1_000_000}).raise_for_status()
        _herd(system, DUE, "warm")
        herd = _herd(system, HERD, "herd")
        among = {f"of {defined}": _among(system, defined) for defined in DEFINED}
    return {
        "name": "herd",
        "ok": herd["fired"] == HERD and herd["fired_twice"] == 0,
        "schedules": HERD,
        **herd,
        "cpu_us_per_fire_among": {name: one["scheduler_us"] for name, one in among.items()},
        "lateness_p50_ms_among": {name: one["lateness_p50_ms"] for name, one in among.items()},
    }


def _herd(system: System, count: int, prefix: str) -> dict[str, Any]:
    # Workers are on other machines: here it is the schedulers, the dispatcher and the two servers that are measured.
    system.parts["worker"].stop()
    _ask(system, ELSEWHERE)
    at = _instant_in(system, LEAD_SECONDS)
    _ask(system, MAKE.format(prefix=prefix, at=f"'{at}'::timestamptz", count=count))
    _ask(system, "ANALYZE mainspring.schedules")
    _wait_until(system, at)
    cpu = system.cpu()
    _until(system, f"SELECT count(*) >= {count} FROM mainspring.fires WHERE schedule LIKE '{prefix}-%'")
    # Released: in the broker's hands, or further.
    _until(system, "SELECT NOT EXISTS (SELECT FROM mainspring.live_jobs WHERE state = 'scheduled')")
    # The questions are few, so that they take no part in what is measured: the rows know when it was over.
    released = float(
        _ask(system, f"SELECT extract(epoch FROM max(released_at) - '{at}'::timestamptz) FROM mainspring.live_jobs")
    )
    used = per_job(cpu, system.cpu(), count)
    fires = f"FROM mainspring.fires WHERE schedule LIKE '{prefix}-%' AND job_id IS NOT NULL"
    late = "extract(epoch FROM recorded_at - planned_at) * 1000"
    _ask(system, "DELETE FROM mainspring.workers WHERE host = 'elsewhere'")
    system.parts["worker"].start()
    _until(system, "SELECT NOT EXISTS (SELECT FROM mainspring.live_jobs)")
    return {
        "fired": int(_ask(system, f"SELECT count(*) {fires}")),
        "fired_twice": int(
            _ask(
                system,
                "SELECT count(*) FROM (SELECT FROM mainspring.jobs WHERE schedule LIKE"
                f" '{prefix}-%' GROUP BY schedule, nominal_at HAVING count(*) > 1) AS twice",
            )
        ),
        "fired_and_released_s": round(released, 2),
        "lateness_p50_ms": round(
            float(_ask(system, f"SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY {late}) {fires}"))
        ),
        "lateness_p99_ms": round(
            float(_ask(system, f"SELECT percentile_cont(0.99) WITHIN GROUP (ORDER BY {late}) {fires}"))
        ),
        "lateness_max_ms": round(float(_ask(system, f"SELECT max({late}) {fires}"))),
        "cpu_us_per_job": used,
    }


def _among(system: System, defined: int) -> dict[str, Any]:
    """What DUE fires cost where so many schedules are defined, the others due next year."""
    there = int(_ask(system, "SELECT count(*) FROM mainspring.schedules WHERE name LIKE 'later-%'"))
    if defined > there:
        later = "date_trunc('hour', clock_timestamp()) + interval '1 year'"
        made = MAKE.format(prefix=f"later-{defined}", at=later, count=defined - there)
        _ask(system, made)
        _ask(system, "VACUUM ANALYZE mainspring.schedules")
    figures = _herd(system, DUE, f"due-{defined}")
    parts = figures["cpu_us_per_job"]
    return figures | {
        "scheduler_us": round(sum(used for name, used in parts.items() if name.startswith("scheduler")), 1)
    }


def _instant_in(system: System, seconds: float) -> str:
    return _ask(system, f"SELECT date_trunc('second', clock_timestamp() + interval '{seconds} seconds')")


def _wait_until(system: System, at: str) -> None:
    """Until just before: the schedulers are not to share their cores with questions."""
    left = float(_ask(system, f"SELECT extract(epoch FROM '{at}'::timestamptz - clock_timestamp())"))
    time.sleep(max(left - 0.05, 0))


def _until(system: System, sql: str) -> None:
    while _ask(system, sql) != "t":
        time.sleep(0.5)


def _ask(system: System, sql: str) -> str:
    return system.stack.postgres.execute(sql).strip()
