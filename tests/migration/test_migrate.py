"""Migrations: side by side, killed in the middle, changed afterwards, from a newer release."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from mainspring.devstack import Stack
from mainspring.domain.errors import Misconfigured
from mainspring.runtime.leader import Leadership
from mainspring.store import migrate as runner
from mainspring.store.pool import Conn, Database, connect
from mainspring_services.scheduler.zone_data import FollowZoneData

MIGRATE = [sys.executable, "-m", "mainspring.cli.main", "migrate"]


@pytest.fixture
def empty_url(stack: Stack) -> Iterator[str]:
    """An empty database."""
    name = f"empty_{secrets.token_hex(6)}"
    yield stack.postgres.create_database(name, None)
    stack.postgres.drop_database(name)


def start(url: str) -> subprocess.Popen[bytes]:
    environment = os.environ | {"MAINSPRING_DATABASE_URL": url}
    return subprocess.Popen(MIGRATE, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def versions(stack: Stack, url: str) -> list[str]:
    return stack.postgres.execute("SELECT version FROM mainspring.schema_migrations ORDER BY version", url).split()


def test_x03_six_runners_at_once_apply_each_migration_once(stack: Stack) -> None:
    for _ in range(3):
        name = f"empty_{secrets.token_hex(6)}"
        url = stack.postgres.create_database(name, None)
        runners = [start(url) for _ in range(6)]
        said = [one.communicate(timeout=60)[1].decode() for one in runners]
        assert [one.returncode for one in runners] == [0] * 6, said
        assert sum("applied 0001_initial" in text for text in said) == 1
        assert versions(stack, url) == [str(one.version) for one in runner.known()]
        stack.postgres.drop_database(name)


async def test_x03_twenty_times_six_runners_in_one_process(stack: Stack) -> None:
    for _ in range(5):
        name = f"empty_{secrets.token_hex(6)}"
        url = stack.postgres.create_database(name, None)
        applied = await asyncio.gather(*(runner.migrate(url) for _ in range(6)))
        assert sorted(applied, key=len) == [[]] * 5 + [[one.name for one in runner.known()]]
        stack.postgres.drop_database(name)


def test_x03_a_runner_killed_in_the_middle_leaves_all_or_nothing(stack: Stack, empty_url: str) -> None:
    victim = start(empty_url)
    query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'mainspring-migrate'"
    while victim.poll() is None and stack.postgres.execute(query) == "0":
        pass
    victim.send_signal(signal.SIGKILL)
    victim.communicate()
    successor = start(empty_url)
    assert (successor.communicate(timeout=60)[1] is not None, successor.returncode) == (True, 0)
    assert versions(stack, empty_url) == [str(one.version) for one in runner.known()]


async def prepared(url: str) -> Conn:
    await runner.migrate(url)
    return await connect(url, "test")


async def test_a_file_that_was_changed_after_it_was_applied_is_refused(empty_url: str) -> None:
    connection = await prepared(empty_url)
    await connection.execute("UPDATE mainspring.schema_migrations SET checksum = 'other'")
    await connection.close()
    with pytest.raises(Misconfigured, match="0001_initial"):
        await runner.migrate(empty_url)


async def test_a_newer_schema_is_refused_only_when_it_breaks_this_release(empty_url: str) -> None:
    connection = await prepared(empty_url)
    newer = "INSERT INTO mainspring.schema_migrations (version, name, phase, breaking, checksum) VALUES"
    await connection.execute(f"{newer} (9998, '9998_more', 'expand', false, 'x')")
    assert await runner.check(connection) is None
    await connection.execute(f"{newer} (9999, '9999_gone', 'contract', true, 'x')")
    with pytest.raises(Misconfigured, match="9999_gone"):
        await runner.check(connection)
    await connection.close()


async def test_a_service_waits_for_the_schema_and_goes_on_when_it_is_there(empty_url: str) -> None:
    waiting = asyncio.create_task(runner.wait_for_schema(empty_url, "test"))
    done, _ = await asyncio.wait([waiting], timeout=0.5)
    assert not done
    await runner.migrate(empty_url)
    await asyncio.wait_for(waiting, 5)


async def test_a_fire_that_is_late_during_an_upgrade_is_not_dropped_by_it(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = runner.known()
    monkeypatch.setattr(runner, "known", lambda: [one for one in everything if one.version < 7])
    await runner.migrate(empty_url)
    own = await connect(empty_url, "test")
    await own.execute(
        "INSERT INTO mainspring.schedules (name, task, cron, timezone, next_nominal_at, fires_at)"
        " SELECT 's', 't', '* * * * *', 'Europe/Berlin', late, late"
        " FROM date_trunc('minute', clock_timestamp() - interval '5 minutes') AS late"
    )
    late = await own.fetchval("SELECT next_nominal_at FROM mainspring.schedules")
    await own.close()
    monkeypatch.setattr(runner, "known", lambda: everything)
    await runner.migrate(empty_url)
    async with Database(empty_url, "test") as database:
        leadership = Leadership(database, "leader")
        await leadership.renew()
        assert (await FollowZoneData(database, leadership).run_once()).done == 1
        async with database.connection() as connection:
            assert await connection.fetchval("SELECT next_nominal_at FROM mainspring.schedules") == late
