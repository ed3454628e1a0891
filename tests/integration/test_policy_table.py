"""The table of misfire and overlap policies in docs/how-to/schedules.md: each cell is what happens."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest
import pytest_asyncio

from mainspring.devstack import Stack
from mainspring.domain.definition import ScheduleDefinition
from mainspring.domain.firing import Misfire, Overlap
from mainspring.domain.states import State
from mainspring.runtime import schedule_changes
from mainspring.store.pool import Conn, Database

from ..property.cron_oracle import utc
from .rows import put_job
from .schedules import firing
from .virtual_clock import VirtualClock, virtual_clock

PAGE = Path(__file__).parents[2] / "docs/how-to/schedules.md"
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
SAVED_AT = utc(2025, 3, 8, 0, 30)
pytestmark = pytest.mark.asyncio(loop_scope="module")


class Situation(NamedTuple):
    """How long after the schedule was saved somebody looks, and what its earlier job does.

    The schedule fires at each full hour: the first time 30 minutes after it was saved.
    """

    after: timedelta
    earlier: State | None = None
    catchup_window: timedelta = timedelta(days=365)


ON_TIME = 30 * MINUTE + timedelta(seconds=2)
SITUATIONS = {
    "on time; nothing runs": Situation(ON_TIME),
    "on time; one waits": Situation(ON_TIME, State.SCHEDULED),
    "on time; one runs": Situation(ON_TIME, State.RUNNING),
    "on time; one waits for a retry": Situation(ON_TIME, State.RETRYING),
    "3 missed; nothing runs": Situation(3 * HOUR),
    "3 missed; one runs": Situation(3 * HOUR, State.RUNNING),
    "3 missed, 1 too old; nothing runs": Situation(3 * HOUR, catchup_window=2 * HOUR),
    "2 missed, 1 on time; nothing runs": Situation(2 * HOUR + ON_TIME),
}


class Cell(NamedTuple):
    """One cell of the table."""

    misfire: str
    overlap: str
    situation: str
    says: str


def cells() -> list[Cell]:
    """The table, row by row."""
    table = PAGE.read_text().partition("<!-- policy table: begin -->")[2].partition("<!-- policy table: end -->")[0]
    rows = [[cell.strip(" `") for cell in line.strip("| ").split("|")] for line in table.strip().splitlines()]
    heads = rows[0][2:]
    return [Cell(row[0], row[1], *pair) for row in rows[2:] for pair in zip(heads, row[2:], strict=True)]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def world(stack: Stack, template_database: str) -> AsyncIterator[tuple[VirtualClock, Database]]:
    """One database for all cells, with a clock of its own."""
    name = "policy_table"
    url = stack.postgres.create_database(name, template_database)
    async with virtual_clock(url) as clock, Database(url, "test") as database:
        yield clock, database
    stack.postgres.drop_database(name)


@pytest.mark.parametrize("cell", cells(), ids=lambda cell: f"{cell.misfire}, {cell.overlap}, {cell.situation}")
async def test_a_cell_of_the_table_says_what_happens(world: tuple[VirtualClock, Database], cell: Cell) -> None:
    clock, database = world
    situation = SITUATIONS[cell.situation]
    name = "-".join([cell.misfire, cell.overlap, str(list(SITUATIONS).index(cell.situation))])
    definition = ScheduleDefinition(
        name,
        "t",
        cron="0 * * * *",
        misfire=Misfire(cell.misfire),
        overlap=Overlap(cell.overlap),
        catchup_window=situation.catchup_window,
    )
    await clock.set(SAVED_AT)
    async with database.transaction() as connection:
        await schedule_changes.save(connection, definition)
        earlier = await put_job(connection, situation.earlier, schedule=name) if situation.earlier else None
    await clock.set(SAVED_AT + situation.after)
    loop = firing(database)
    while (await loop.run_once()).again:
        pass
    async with database.transaction() as connection:
        happened = await what_happened(connection, name, earlier)
        await schedule_changes.delete(connection, name)
    assert happened == cell.says


async def what_happened(connection: Conn, name: str, earlier: UUID | None) -> str:
    """In the words of the table."""
    fires = await connection.fetch("SELECT * FROM mainspring.fires WHERE schedule = $1", name)
    jobs = await connection.fetch(
        "SELECT id, reason, cancel_requested FROM mainspring.live_jobs WHERE schedule = $1", name
    )
    made = {row["id"] for row in jobs} - {earlier}
    assert made == {row["job_id"] for row in fires if row["job_id"]}
    skipped: Counter[str] = Counter()
    for row in fires:
        skipped.update({row["skipped"]: row["nominal_times"]} if row["skipped"] else {})
    counts = [{0: "none", 1: "1 job"}.get(len(made), f"{len(made)} jobs")]
    if held := [row["id"] for row in jobs if row["reason"] == "overlap"]:
        counts.append(f"{len(held)} held")
    words = ", ".join([*counts, *(f"{number} {reason}" for reason, number in sorted(skipped.items()))])
    cancelled = {row["id"] for row in jobs if row["cancel_requested"]}
    assert cancelled <= {earlier}
    return f"{words}; the running one is cancelled" if cancelled else words


async def test_the_table_has_a_row_for_each_pair_of_policies_and_a_column_for_each_situation() -> None:
    expected: list[Any] = [
        (misfire, overlap, each) for misfire in Misfire for overlap in Overlap for each in SITUATIONS
    ]
    assert sorted(cell[:3] for cell in cells()) == sorted(expected)
