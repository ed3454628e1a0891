"""Jobs and schedules on a clock that a test moves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from mainspring import InvalidInput, JobContext, RetryPolicy, Snooze, task
from mainspring.testing import TimeTravel

START = datetime(2026, 3, 28, 12, tzinfo=UTC)


@task("t.report")
async def report(ctx: JobContext, *, kind: str = "daily") -> str:
    return f"{kind} {ctx.nominal_at:%d.%m. %H:%M}" if ctx.nominal_at else kind


@task("t.third", retry=RetryPolicy(max_attempts=3, delays=(60, 600)))
async def third(ctx: JobContext) -> int:
    if ctx.attempt < 3:
        raise ValueError("not yet")
    return ctx.attempt


@task("t.patient")
async def patient(ctx: JobContext) -> None:
    if ctx.attempt < 3:
        raise Snooze(timedelta(hours=1))


async def test_a_job_runs_when_the_clock_reaches_it_and_not_before():
    world = TimeTravel([report], START)
    job = world.submit(report.request(), delay=timedelta(hours=2))
    assert await world.travel(timedelta(hours=1)) == []
    assert await world.travel(timedelta(hours=1)) == [job]
    assert (job.state, job.result, job.started_at) == ("succeeded", "daily", [START + timedelta(hours=2)])


async def test_retries_wait_on_the_same_clock():
    world = TimeTravel([third], START)
    job = world.submit(third.request())
    await world.travel(timedelta(hours=1))
    waited = [
        (after - before).total_seconds() for before, after in zip(job.started_at, job.started_at[1:], strict=False)
    ]
    assert (job.state, len(job.attempts)) == ("succeeded", 3)
    assert waited == [attempt.delay.total_seconds() for attempt in job.attempts[:2]]
    assert 30 <= waited[0] <= 60
    assert 300 <= waited[1] <= 600


async def test_a_snooze_is_waited_for():
    world = TimeTravel([patient], START)
    job = world.submit(patient.request())
    await world.travel(timedelta(hours=3))
    assert job.started_at == [START, START + timedelta(hours=1), START + timedelta(hours=2)]


async def test_a_schedule_fires_at_its_nominal_times_across_a_change_of_the_clocks():
    world = TimeTravel([report], START)
    world.schedule("nightly", report.request(kind="nightly"), cron="30 2 * * *", timezone="Europe/Berlin")
    world.schedule("hourly", report.request(kind="hourly"), every=timedelta(hours=6))
    ended = await world.travel(timedelta(days=2))
    nightly = [job.result for job in ended if job.request.schedule == "nightly"]
    # 02:30 doesn't exist on the 29th: once, at the first instant after the gap.
    assert nightly == ["nightly 29.03. 01:00", "nightly 30.03. 00:30"]
    assert len([job for job in ended if job.request.schedule == "hourly"]) == 8
    assert [job.started_at[0] for job in ended] == sorted(job.started_at[0] for job in ended)


async def test_a_nominal_time_is_skipped_while_an_earlier_job_waits():
    world = TimeTravel([third], START)
    world.schedule("each-minute", third.request(), every=timedelta(minutes=1))
    await world.travel(timedelta(minutes=9))
    (job,) = world.jobs
    assert (job.request.schedule, job.state) == ("each-minute", "retrying")
    assert [name for name, _ in world.skipped] == ["each-minute"] * 8


async def test_what_cannot_be_is_refused():
    world = TimeTravel([report], START)
    with pytest.raises(InvalidInput, match="none of the tasks"):
        world.submit(third.request())
    with pytest.raises(InvalidInput, match="before"):
        await world.travel(START - timedelta(seconds=1))
    with pytest.raises(InvalidInput, match="cron"):
        world.schedule("bad", report.request(), cron="0 0 30 2 *")
