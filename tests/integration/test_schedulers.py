"""F03: several schedulers, frozen and killed at random; and a schedule whose runs know the one before."""

from __future__ import annotations

import os
import random
import time

import pytest

from .system import System

#: Longer by hand: MAINSPRING_TEST_SECONDS=600.
SECONDS = float(os.environ.get("MAINSPRING_TEST_SECONDS", "20"))
SCHEDULES = 50
EVERY = 2
SEED = 7


@pytest.mark.timeout(SECONDS + 120)
def test_f03_schedulers_that_are_frozen_and_killed_at_random_miss_nothing_and_double_nothing(system: System) -> None:
    schedulers = [system.scheduler, *(system.fleet.start("scheduler", beat=1) for _ in range(2))]
    system.ready()
    for number in range(SCHEDULES):
        body = {"task": "nobody.runs", "every_seconds": EVERY, "overlap": "allow", "misfire": "fire_all"}
        system.http.put(f"/v1/schedules/s{number}", json=body).raise_for_status()
    dice = random.Random(SEED)
    over_at = time.monotonic() + SECONDS
    while time.monotonic() < over_at:
        one = dice.choice(schedulers)
        if dice.random() < 0.5:
            one.kill()
            time.sleep(dice.uniform(0, 2))
            one.start()
        else:
            # Longer than a lease now and then: another one leads when it wakes up.
            one.freeze()
            time.sleep(dice.choice([dice.uniform(0, 3), dice.uniform(15, 20)]) if SECONDS > 60 else dice.uniform(0, 3))
            one.thaw()
        time.sleep(dice.uniform(0, 2))
    system.http.post("/v1/schedules/pause", json={"all": True}).raise_for_status()
    # What the pause passed over is recorded too: from the first to the last no nominal time is without a row.
    gaps = (
        "SELECT count(*) FROM (SELECT schedule, sum(nominal_times) AS recorded,"
        f" extract(epoch FROM max(last_nominal_at) - min(nominal_at)) / {EVERY} + 1 AS passed"
        " FROM mainspring.fires GROUP BY schedule) AS each WHERE recorded <> passed"
    )
    assert system.count(gaps) == 0
    assert system.count("SELECT count(DISTINCT schedule) FROM mainspring.fires") == SCHEDULES
    fired = system.count("SELECT count(*) FROM mainspring.fires WHERE job_id IS NOT NULL")
    jobs = "mainspring.jobs WHERE schedule IS NOT NULL"
    assert system.count(f"SELECT count(*) FROM {jobs}") == fired
    assert system.count(f"SELECT count(*) FROM (SELECT DISTINCT schedule, nominal_at FROM {jobs}) AS pairs") == fired
    assert fired >= SCHEDULES * (SECONDS / EVERY - 8)


def test_a_run_is_told_what_became_of_the_one_before(system: System) -> None:
    system.worker()
    system.ready()
    body = {"task": "fleet.counts_on", "every_seconds": 1, "overlap": "queue_all"}
    system.http.put("/v1/schedules/counting", json=body).raise_for_status()
    results = "SELECT count(*) FROM mainspring.finished_jobs WHERE schedule = 'counting'"
    system.until(lambda: system.count(results) >= 4)
    system.http.post("/v1/schedules/counting/pause").raise_for_status()
    counted = system.query(
        "SELECT string_agg(result::text, ',' ORDER BY finished_at) FROM mainspring.finished_jobs"
        " WHERE schedule = 'counting'"
    ).split(",")
    # Each began where the one before had ended: they never ran side by side.
    assert counted[:4] == ["1", "2", "3", "4"]
