"""The agenda: one look finds for each loop what that loop would find, and wakes nobody else."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mainspring.broker.publisher import Publisher
from mainspring.domain.states import State
from mainspring.domain.zones import zone_data_version
from mainspring.runtime.leader import Leadership
from mainspring.runtime.loop import Pass
from mainspring.store import agenda, queues
from mainspring.store.pool import Conn, Database
from mainspring.store.release import Bounds
from mainspring.store.sql import load_all
from mainspring_services.scheduler.agenda import Agenda
from mainspring_services.scheduler.main import loops
from mainspring_services.scheduler.queue_topology import QueueTopology
from mainspring_services.scheduler.release_due import ReleaseDue
from mainspring_services.scheduler.settings import SchedulerSettings

from .rows import put_job
from .schedules import make_due, save

OURS = f"INSERT INTO mainspring.zone_data (release) VALUES ('{zone_data_version()}')"
SCHEDULE = (
    "INSERT INTO mainspring.schedules (name, task, queue, cron, timezone, next_nominal_at, fires_at, zone_data, paused)"
    " SELECT 's', 't', 'q', '0 0 * * *', 'Europe/Berlin', at, at, '{zone_data}', {paused}"
    " FROM (SELECT clock_timestamp() + interval '{seconds} seconds' AS at) AS planned"
)
OUTBOX = (
    "INSERT INTO mainspring.outbox (queue, ids, tickets, created_at)"
    " SELECT 'q', ARRAY[gen_random_uuid()], ARRAY[1], clock_timestamp() - interval '{age} seconds'"
)


async def found(database: Database, known: int = 0) -> set[str]:
    return await database.run(
        lambda connection: agenda.look(
            connection,
            ahead=timedelta(seconds=1),
            unpublished_for=timedelta(seconds=2),
            retry_overdue=timedelta(seconds=5),
            queues=known,
        )
    )


def planned(seconds: float, zone_data: str = zone_data_version(), paused: str = "false") -> str:
    return SCHEDULE.format(seconds=seconds, zone_data=zone_data, paused=paused)


async def test_an_idle_system_has_nothing_to_do(database: Database) -> None:
    async with database.connection() as connection:
        await connection.execute(OURS)
    assert await found(database) == set()


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (planned(0.5), {"fire_due"}),
        (planned(30), set()),
        (planned(0.5, paused="true"), set()),
        (planned(-1, "1999a"), {"fire_due", "zone_data"}),
        (planned(30, "1999a"), set()),
        ("UPDATE mainspring.zone_data SET release = '1999a'", {"zone_data"}),
        ("DELETE FROM mainspring.zone_data", {"zone_data"}),
        (OUTBOX.format(age=3), {"republish_outbox"}),
        (OUTBOX.format(age=1), set()),
        ("INSERT INTO mainspring.queue_first_uses (name) VALUES ('q')", {"declare_queues"}),
        ("INSERT INTO mainspring.queues (name) VALUES ('q')", {"declare_queues"}),
    ],
)
async def test_a_row_wakes_the_loop_that_it_concerns(database: Database, sql: str, expected: set[str]) -> None:
    async with database.connection() as connection:
        await connection.execute(OURS)
        await connection.execute(sql)
    assert await found(database) == expected


@pytest.mark.parametrize(
    ("state", "columns", "expected"),
    [
        (State.RUNNING, {}, set()),
        (State.RUNNING, {"lease_until": -1}, {"reclaim_expired"}),
        (State.RETRYING, {"due_at": -1}, set()),
        (State.RETRYING, {"due_at": -6}, {"reconcile_messages"}),
        (State.SCHEDULED, {}, set()),
        (State.SCHEDULED, {"expires_at": 5}, set()),
        (State.SCHEDULED, {"expires_at": -1}, {"reconcile_messages"}),
        (State.RUNNING, {"expires_at": -1}, set()),
        (State.SCHEDULED, {"reason": "overlap"}, {"let_go"}),
    ],
)
async def test_a_job_wakes_the_loop_that_it_concerns(
    database: Database, state: State, columns: dict[str, object], expected: set[str]
) -> None:
    async with database.connection() as connection:
        await connection.execute(OURS)
        await put_job(connection, state, **{name: await _value(connection, one) for name, one in columns.items()})
    assert await found(database, known=1) == expected


async def _value(connection: Conn, one: object) -> object:
    """A number of seconds from now as an instant."""
    if isinstance(one, str):
        return one
    return await connection.fetchval("SELECT clock_timestamp() + $1 * interval '1 second'", one)


async def test_work_that_is_under_way_wakes_its_loop(database: Database) -> None:
    async with database.connection() as connection:
        await connection.execute(OURS)
        await connection.execute(planned(30))
        await connection.execute(
            "INSERT INTO mainspring.backfills (id, schedule, start_at, end_at, parallel, nominal_times)"
            " VALUES (gen_random_uuid(), 's', now() - interval '1 day', now(), 1, 1)"
        )
        await connection.execute(
            "INSERT INTO mainspring.bulk_operations (id, action, filter, author, matched, next_at)"
            " VALUES (gen_random_uuid(), 'cancel', '{}', 'test', 1, clock_timestamp())"
        )
        await queues.make_queues(connection, ["q"])
    assert await found(database, known=1) == {"backfill_due", "bulk_due"}


def agenda_of(database: Database, settings: SchedulerSettings) -> Agenda:
    """The agenda of a scheduler with these settings."""
    topology, bounds = QueueTopology(settings.amqp_url), Bounds()
    publisher = Publisher(settings.amqp_url, "test")
    releases = ReleaseDue(database, publisher, topology, bounds, 10)
    composed = loops(settings, database, publisher, topology, Leadership(database, "leader"), releases, bounds)
    (one,) = [loop.run_once.__self__ for loop in composed if loop.name == "agenda"]  # type: ignore[attr-defined]
    assert isinstance(one, Agenda)
    return one


@pytest.mark.parametrize(("interval", "is_woken"), [(5.0, True), (1.0, False)])
async def test_a_schedule_is_seen_before_the_look_after_the_next(
    database: Database, interval: float, is_woken: bool
) -> None:
    await save(database, "s", every_seconds=3600)
    await make_due(database, "s", timedelta(hours=1))
    async with database.connection() as connection:
        await connection.execute("UPDATE mainspring.schedules SET fires_at = clock_timestamp() + interval '7 s'")
    one = agenda_of(database, SchedulerSettings(agenda_interval=interval))
    await one.run_once()
    assert one.loops["fire_due"].wake.is_set() == is_woken


async def test_every_loop_that_waits_is_on_the_agenda_and_is_woken(database: Database) -> None:
    one = agenda_of(database, SchedulerSettings())
    async with database.connection() as connection:
        columns = await _columns(connection)
        await connection.execute(OURS)
        await connection.execute(OUTBOX.format(age=3))
    assert set(one.loops) == columns
    assert await one.run_once() == Pass(done=1)
    assert {name for name, loop in one.loops.items() if loop.wake.is_set()} == {"republish_outbox"}


async def _columns(connection: Conn) -> set[str]:
    query = await connection.prepare(load_all()["agenda.look"])
    return {attribute.name for attribute in query.get_attributes()}
