"""A month of schedules in seconds: real Postgres, the real firing, a clock that jumps from one thing to the next.

The scheduler is made anew every ten minutes, is away for an hour each day, and sometimes there are two. People edit,
pause and resume. At the end the record of fires is held, nominal time by nominal time, against `schedule_oracle`.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import replace
from datetime import datetime
from typing import Any

from mainspring.domain.calendar import Calendar
from mainspring.domain.definition import ScheduleDefinition
from mainspring.domain.firing import Misfire, Overlap
from mainspring.runtime import calendar_changes, schedule_changes
from mainspring.store import schedules
from mainspring.store.pool import Database
from mainspring_services.scheduler.fire_due import FireDue

from ..property.cron_oracle import DAY, MINUTE, utc
from .schedule_oracle import BEGIN, END, SECOND, Expectation, Happening
from .schedules import firing
from .virtual_clock import VirtualClock, virtual_clock

NEW_YORK, BERLIN, LORD_HOWE, KOLKATA = "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kolkata"
#: A month in which each reason to skip comes up, and in which the last run comes while an outage is caught up.
SEED = 13
HOLIDAYS = ("2025-03-17", "03-31")
MORE_HOLIDAYS = (*HOLIDAYS, "2025-03-18", "2025-03-27", "2025-04-01")


def schedule(name: str, **fields: Any) -> ScheduleDefinition:
    return ScheduleDefinition(name, "t", **{"overlap": Overlap.ALLOW, **fields})


SCHEDULES = [
    schedule("in-the-gap", cron="30 2 * * *", timezone=NEW_YORK),
    schedule("office", cron="*/30 9-12 * * mon-fri", timezone=NEW_YORK, misfire=Misfire.SKIP),
    schedule("dense", cron="*/20 8-12 * * *", timezone=BERLIN, misfire=Misfire.FIRE_ALL, max_catchup=2),
    schedule(
        "window",
        cron="*/20 7-10 * * *",
        misfire=Misfire.FIRE_ALL,
        catchup_window=25 * MINUTE,
        start_at=utc(2025, 3, 20),
        end_at=utc(2025, 4, 2, 12),
    ),
    schedule("fifth-sunday", cron="30 2 * * sun#5,fri#2", timezone=BERLIN),
    schedule("month-end", cron="0 22 L,15 * *", timezone=BERLIN),
    schedule("half-hour-change", cron="*/15 1-2 * * sat,sun", timezone=LORD_HOWE),
    schedule("kolkata", cron="15 9,16 * * *", timezone=KOLKATA, misfire=Misfire.SKIP),
    schedule("interval", every_seconds=1500, start_at=utc(2025, 3, 12, 1, 5), end_at=utc(2025, 3, 16)),
    schedule("weekly", cron="0 0 * * 0"),
    schedule("some-runs", cron="*/15 8-10 * * *", timezone=BERLIN, max_runs=170, misfire=Misfire.FIRE_ALL),
    schedule("holidays", cron="0 7-13/2 * * *", timezone=BERLIN, calendars=("closed",)),
    schedule("once", at=utc(2025, 3, 21, 9, 30)),
]


def moment(draw: random.Random, begin: datetime = BEGIN, end: datetime = END) -> datetime:
    """An instant that no nominal time comes within 10 s of."""
    minutes = draw.randrange(max(int((end - begin) / MINUTE), 1))
    return begin + minutes * MINUTE + draw.randrange(12, 48) * SECOND + 1234 * SECOND / 1_000_000


def outages(draw: random.Random) -> list[Happening]:
    """An hour of each day, mostly of the busy ones; sometimes it is over just after a nominal time."""
    happenings = []
    for day in range((END - BEGIN) // DAY):
        down = moment(
            draw, BEGIN + day * DAY + draw.choice([6, 6, 6, 0]) * 60 * MINUTE, BEGIN + day * DAY + 12 * 60 * MINUTE
        )
        up = down + 60 * MINUTE
        if draw.random() < 0.3:
            up = up.replace(minute=up.minute // 20 * 20, second=4)
        happenings += [Happening(down, "down"), Happening(up, "up")]
    return happenings


def edited(draw: random.Random, one: ScheduleDefinition) -> ScheduleDefinition:
    """Another trigger or policy, or only another payload."""
    policies: list[dict[str, Any]] = [{"misfire": draw.choice(list(Misfire))}, {"max_catchup": draw.randrange(3)}]
    triggers: list[dict[str, Any]] = [{"end_at": moment(draw, one.end_at or END - 9 * DAY)}]
    if one.cron is not None:
        triggers += [{"timezone": draw.choice([NEW_YORK, BERLIN, LORD_HOWE, "UTC"])}, {"cron": "*/20 10-11 * * *"}]
    changes = draw.choice([[{"payload": f'{{"edit": {draw.random()}}}'}], policies, triggers])
    return replace(one, **draw.choice(changes))


def changes(draw: random.Random, one: ScheduleDefinition, happenings: list[Happening]) -> list[Happening]:
    """What people do to a schedule in the month: half of it while the scheduler is away."""
    away = [each.at for each in happenings if each.what == "down"]
    if one.max_runs is not None:
        return [Happening(BEGIN, "save", one.name, one)]
    moments = {moment(draw) for _ in range(6)}
    moments |= {moment(draw, at + 20 * MINUTE, at + 58 * MINUTE) for at in draw.sample(away, 6)}
    done = [Happening(BEGIN, "save", one.name, one)]
    resumed_at = BEGIN
    for at in sorted(moments):
        if at <= resumed_at:
            continue
        if not one.calendars and draw.random() < 0.35:
            resumed_at = moment(draw, at + 15 * MINUTE, at + DAY)
            done += [Happening(at, "pause", one.name), Happening(resumed_at, "resume", one.name)]
        else:
            one = edited(draw, one)
            done.append(Happening(at, "save", one.name, one))
    return done


def script(draw: random.Random) -> list[Happening]:
    happenings = outages(draw)
    for one in SCHEDULES:
        happenings += changes(draw, one, happenings)
    gone = schedule("gone", cron="*/30 * * * *")
    away = draw.choice([each.at for each in happenings if each.what == "down"])
    happenings += [Happening(away - DAY, "save", "gone", gone), Happening(away + 45 * MINUTE, "delete", "gone")]
    happenings += [
        Happening(BEGIN, "calendar", "closed", HOLIDAYS),
        Happening(utc(2025, 3, 24, 21, 3), "calendar", "closed", MORE_HOLIDAYS),
    ]
    return sorted((each for each in happenings if each.at < END), key=lambda each: (each.at, each.what))


class Scheduler:
    """Looks when it must, as the loop does; made anew every ten minutes, and now and then there are two."""

    def __init__(self, database: Database, draw: random.Random) -> None:
        self._database = database
        self._draw = draw
        self._loops: list[FireDue] = []
        self._made_at = BEGIN - DAY

    async def look(self, now: datetime) -> datetime:
        """Fire what is due; when it wants to look again."""
        if now - self._made_at >= 10 * MINUTE:
            number = 2 if self._draw.random() < 0.15 else 1
            self._loops, self._made_at = [firing(self._database) for _ in range(number)], now
        while True:
            passes = await asyncio.gather(*(one.run_once() for one in self._loops))
            if not any(each.again for each in passes):
                wait = min((each.wait for each in passes if each.wait is not None), default=None)
                # A loop wakes a little late.
                return END if wait is None else now + (wait + 0.001) * SECOND


async def happen(database: Database, each: Happening) -> None:
    match each.what:
        case "save":
            await database.run_in_transaction(lambda c: schedule_changes.save(c, each.given))
        case "pause" | "resume":
            await database.run_in_transaction(lambda c: schedule_changes.set_paused(c, each.name, each.what == "pause"))
        case "delete":
            await database.run_in_transaction(lambda c: schedule_changes.delete(c, each.name))
        case "calendar":
            calendar = Calendar(each.name, each.given)
            await database.run_in_transaction(lambda c: calendar_changes.save(c, calendar))


async def live(clock: VirtualClock, database: Database, draw: random.Random, happenings: list[Happening]) -> None:
    """From the first happening to the end of the month."""
    scheduler, is_up = Scheduler(database, draw), True
    for number, each in enumerate(happenings):
        await clock.set(each.at)
        is_up = {"down": False, "up": True}.get(each.what, is_up)
        await happen(database, each)
        until = happenings[number + 1].at if number + 1 < len(happenings) else END
        while is_up and (next_at := await scheduler.look(clock.now)) < until:
            await clock.set(next_at)


async def ledger(database: Database, times: dict[str, list[datetime]]) -> dict[tuple[str, datetime], Any]:
    """Each nominal time that is recorded, with its row: ranges are expanded by the nominal times there are."""
    async with database.connection() as connection:
        rows = await connection.fetch("SELECT * FROM mainspring.fires ORDER BY schedule, nominal_at")
    found: dict[tuple[str, datetime], Any] = {}
    for row in rows:
        name, first, last = row["schedule"], row["nominal_at"], row["last_nominal_at"]
        meant = [at for at in times[name] if first <= at <= last]
        assert (len(meant), *meant[:1], *meant[-1:]) == (row["nominal_times"], first, last), row
        assert not [at for at in meant if (name, at) in found], row
        found |= {(name, at): row for at in meant}
    return found


async def test_a_month_of_schedules_leaves_the_record_that_the_policies_ask_for(database_url: str) -> None:
    draw = random.Random(SEED)
    happenings = script(draw)
    expected: dict[tuple[str, datetime], Any] = {}
    for name in sorted({each.name for each in happenings if each.what == "save"}):
        one = Expectation(name)
        one.follow(happenings)
        expected |= {(name, at): verdict for at, verdict in one.verdicts.items()}
    times: dict[str, list[datetime]] = {}
    for name, at in sorted(expected):
        times.setdefault(name, []).append(at)

    async with virtual_clock(database_url) as clock, Database(database_url, "month") as database:
        await live(clock, database, draw, happenings)
        found = await ledger(database, times)
        async with database.connection() as connection:
            jobs = await connection.fetch("SELECT id, schedule, nominal_at FROM mainspring.jobs")

    assert {key: row["skipped"] or "fired" for key, row in found.items()} == {
        key: verdict.became for key, verdict in expected.items()
    }
    late = {
        key: row["recorded_at"] for key, row in found.items() if abs(row["recorded_at"] - expected[key].at) > SECOND
    }
    assert late == {}
    fired = sorted((row["job_id"], *key) for key, row in found.items() if row["job_id"])
    assert sorted((job["id"], job["schedule"], job["nominal_at"]) for job in jobs) == fired
    # The month had everything in it.
    reasons = Counter(verdict.became for verdict in expected.values())
    assert {reason for reason, number in reasons.items() if number >= 3} >= {
        *("fired", "misfire", "superseded", "max_catchup", "catchup_window", "max_runs", "paused", "edited"),
    }, reasons


async def fires_of(database: Database, name: str) -> list[tuple[datetime, int, str | None]]:
    async with database.connection() as connection:
        rows = await connection.fetch("SELECT * FROM mainspring.fires WHERE schedule = $1 ORDER BY nominal_at", name)
    return [(row["nominal_at"], row["nominal_times"], row["skipped"]) for row in rows]


async def test_an_interval_without_a_start_keeps_the_phase_of_its_creation(database_url: str) -> None:
    happenings = [Happening(BEGIN, "save", "s", schedule("s", every_seconds=1200))]
    happenings.append(Happening(BEGIN + 70 * MINUTE, "down"))
    async with virtual_clock(database_url) as clock, Database(database_url, "interval") as database:
        await live(clock, database, random.Random(1), happenings)
        made = await fires_of(database, "s")
        async with database.connection() as connection:
            stored = await schedules.get(connection, "s")
    assert stored is not None
    assert made == [(stored.anchor + number * 20 * MINUTE, 1, None) for number in (1, 2, 3)]


async def test_a_calendar_that_closes_today_records_the_nominal_times_that_had_come(database_url: str) -> None:
    one = schedule("s", cron="0 * * * *", calendars=("closed",))
    happenings = [
        Happening(BEGIN, "calendar", "closed", ("12-25",)),
        Happening(BEGIN, "save", "s", one),
        Happening(BEGIN + 90 * MINUTE, "down"),
        Happening(BEGIN + 200 * MINUTE, "calendar", "closed", ("2025-03-08",)),
    ]
    async with virtual_clock(database_url) as clock, Database(database_url, "calendar") as database:
        await live(clock, database, random.Random(1), happenings)
        assert await fires_of(database, "s") == [
            (utc(2025, 3, 8, 1), 1, None),
            (utc(2025, 3, 8, 2), 2, "edited"),
        ]


async def test_nominal_times_of_a_pause_are_recorded_as_paused_though_the_trigger_is_edited_in_it(
    database_url: str,
) -> None:
    happenings = [
        Happening(BEGIN, "save", "s", schedule("s", cron="0 * * * *")),
        Happening(BEGIN + 30 * MINUTE, "pause", "s"),
        Happening(BEGIN + 200 * MINUTE, "save", "s", schedule("s", cron="30 * * * *", paused=True)),
        Happening(BEGIN + 201 * MINUTE, "down"),
    ]
    async with virtual_clock(database_url) as clock, Database(database_url, "paused") as database:
        await live(clock, database, random.Random(1), happenings)
        assert await fires_of(database, "s") == [(utc(2025, 3, 8, 1), 3, "paused")]


async def test_a_schedule_that_has_made_its_last_job_waits_for_nothing_after_a_resume(database_url: str) -> None:
    happenings = [
        Happening(BEGIN, "save", "s", schedule("s", cron="0 * * * *", max_runs=1)),
        Happening(BEGIN + 90 * MINUTE, "pause", "s"),
        Happening(BEGIN + 200 * MINUTE, "resume", "s"),
        Happening(BEGIN + 201 * MINUTE, "down"),
    ]
    async with virtual_clock(database_url) as clock, Database(database_url, "over") as database:
        await live(clock, database, random.Random(1), happenings)
        assert await fires_of(database, "s") == [(utc(2025, 3, 8, 1), 1, None)]
