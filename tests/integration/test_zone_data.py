"""C12: zone rules change while the next fire is stored; every service says which zone data it has."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from importlib.resources import as_file, files
from pathlib import Path

import httpx
import pytest

from mainspring.devstack import Stack
from mainspring.devstack.fleet import Fleet, open_fleet
from mainspring.runtime.leader import Leadership
from mainspring.store import schedules
from mainspring.store.pool import Database
from mainspring_services.scheduler.zone_data import FollowZoneData

from .schedules import fires_of, firing, jobs_of, make_due, save, stored

#: Vancouver as it was: on Pacific time, which Los Angeles keeps.
OLD, NEW = "2025b", "2026z"


@pytest.fixture
def zone_folders(tmp_path: Path) -> dict[str, str]:
    """A folder of zone data for each release; by the new one Vancouver keeps summer time."""
    found = {}
    for release, zone in ((OLD, "America/Los_Angeles"), (NEW, "America/Phoenix")):
        folder = tmp_path / release / "America"
        folder.mkdir(parents=True)
        with as_file(files("tzdata").joinpath("zoneinfo").joinpath(zone)) as source:
            shutil.copyfile(source, folder / "Vancouver")
        (folder.parent / "tzdata.zi").write_text(f"# version {release}\n")
        found[release] = os.fspath(folder.parent)
    return found


def until(condition: Callable[[], bool], seconds: float) -> None:
    give_up_at = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up_at
        time.sleep(0.1)


@contextmanager
def fleet_with(stack: Stack, database_url: str, vhost_url: str, zone_folder: str) -> Iterator[Fleet]:
    urls = {"MAINSPRING_DATABASE_URL": database_url, "MAINSPRING_AMQP_URL": vhost_url}
    with open_fleet(urls, stack.folder, f"zones-{database_url[-12:]}", PYTHONTZPATH=zone_folder) as fleet:
        yield fleet


@pytest.mark.timeout(120)
def test_c12_the_next_fire_follows_the_zone_data(
    stack: Stack, database_url: str, vhost_url: str, zone_folders: dict[str, str]
) -> None:
    with fleet_with(stack, database_url, vhost_url, zone_folders[OLD]) as fleet:
        api, scheduler = fleet.start("api"), fleet.start("scheduler")
        fleet.wait_ready()
        with httpx.Client(base_url=f"http://127.0.0.1:{api.port}", timeout=20) as http:
            body = {"task": "t", "cron": "0 9 15 12 *", "timezone": "America/Vancouver"}
            http.put("/v1/schedules/daily", json=body).raise_for_status()

            def next_hour() -> str:
                return str(http.get("/v1/schedules/daily").json()["next_nominal_at"])[11:16]

            assert next_hour() == "17:00"
            assert http.get("/readyz").json()["zone_data"] == OLD
            until(lambda: "zone_data" not in http.get("/readyz").json()["degraded"], 20)
            scheduler.stop()
            scheduler.set_environment("PYTHONTZPATH", zone_folders[NEW])
            scheduler.start()
            until(lambda: next_hour() == "16:00", 30)
            assert httpx.get(f"http://127.0.0.1:{scheduler.port}/readyz").json()["zone_data"] == NEW
            # The api still has the old rules, and says so.
            until(
                lambda: http.get("/readyz").json()["degraded"].get("zone_data") == f"{OLD} here, {NEW} in the fleet", 20
            )


async def follower(database: Database) -> FollowZoneData:
    leadership = Leadership(database, "leader")
    await leadership.renew()
    return FollowZoneData(database, leadership)


async def foreign(database: Database, name: str) -> None:
    """As if other zone data had decided its next time."""
    async with database.connection() as connection:
        await connection.execute("UPDATE mainspring.schedules SET zone_data = 'other' WHERE name = $1", name)


async def test_what_other_zone_data_decided_is_fired_by_nobody_until_the_leader_has_computed_it_again(
    database: Database,
) -> None:
    follow = await follower(database)
    await follow.run_once()
    await save(database, "s", cron="0 * * * *", timezone="Europe/Berlin")
    nominal_at = await make_due(database, "s", timedelta(hours=1))
    await foreign(database, "s")
    loop = firing(database)
    assert (await loop.run_once()).done == 0
    assert (await follow.run_once()).done == 1
    assert (await loop.run_once()).done == 1
    assert [row["nominal_at"] for row in await fires_of(database, "s")] == [nominal_at]


async def test_a_fixed_time_comes_once_though_the_new_rules_bring_it_again(database: Database) -> None:
    await save(database, "s", cron="0 9 * * *", timezone="Europe/Berlin")
    one = await stored(database, "s")
    async with database.connection() as connection:
        # By the old rules it was nine o'clock already.
        local = schedules.local_at(one.row["timezone"], one.next_nominal_at)
        await connection.execute("UPDATE mainspring.schedules SET last_local = $1", local)
    await foreign(database, "s")
    await (await follower(database)).run_once()
    after = await stored(database, "s")
    assert after.next_nominal_at is not None
    assert one.next_nominal_at is not None
    assert after.next_nominal_at - one.next_nominal_at > timedelta(hours=20)
    assert [row["skipped"] for row in await fires_of(database, "s")] == ["zone_data"]
    assert not await jobs_of(database, "s")


async def test_what_was_missed_under_the_old_rules_is_still_missed_under_the_new(database: Database) -> None:
    await save(database, "s", cron="0 * * * *", timezone="Europe/Berlin")
    nominal_at = await make_due(database, "s", timedelta(hours=3))
    await foreign(database, "s")
    await (await follower(database)).run_once()
    assert (await stored(database, "s")).next_nominal_at == nominal_at
