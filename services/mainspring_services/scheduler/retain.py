"""Lets go of what is over: days by their partitions, the rest in small parts, and never so that anybody waits."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from uuid import UUID

from mainspring.domain.retention import NEVER, Cutoff, Day, Keeping
from mainspring.runtime.leader import Leadership
from mainspring.runtime.loop import Pass
from mainspring.store import fleet, retention
from mainspring.store.pool import Conn, Database
from mainspring.store.retention import NONE, KeyTable, Swept
from mainspring.telemetry import metrics
from mainspring.telemetry.logs import get_logger

log = get_logger(__name__)
#: Jobs, or payloads, in one transaction.
AT_ONCE = 2000
#: Blocks of a table of keys in one transaction, of some 60 keys each.
BLOCKS_AT_ONCE = 128
#: Transactions of each kind in one pass, and what it waits when there is more to do.
PARTS = 20
MORE_SECONDS = 0.5


@dataclass(slots=True)
class Retain:
    """The loop's configuration, and how far its sweeps are: another leader begins them anew."""

    database: Database
    leadership: Leadership
    #: By day: the cutoffs that it was swept by, and how far.
    _swept: dict[str, tuple[list[Cutoff], UUID | None]] = field(default_factory=dict)
    _kept_details: UUID | None = NONE
    _blocks: dict[KeyTable, int] = field(default_factory=dict)
    _keys_before: datetime = NEVER

    async def run_once(self) -> Pass:
        """Drop the days that are over, then do some parts of each sweep."""
        if not self.leadership.is_held:
            self._swept.clear()
            return Pass()
        keeping = await self.database.run(_read)
        days = await self.database.run(retention.days)
        left = [day for day in days if not await self._drop(day, keeping)]
        more = await self._sweep_days([day for day in left if day.table == "finished_jobs"], keeping)
        more |= await self._sweep_kept_details()
        more |= await self._forget_keys(keeping)
        return Pass(wait=MORE_SECONDS if more else None)

    async def _drop(self, day: Day, keeping: Keeping) -> bool:
        """True when it is gone. What is in use, or much wanted, stays until another pass."""
        is_history = day.table in {"attempts", "events"}
        if day.ends > (keeping.no_history_since if is_history else keeping.no_job_since):
            return False
        drop = retention.drop_details if day.table == "job_details" else retention.drop
        async with self.leadership.transaction() as connection:
            if connection is None or not await drop(connection, day):
                return False
        metrics.DAYS_DROPPED.labels(day.table).inc()
        log.info("dropped a day that is over", partition=day.name)
        return True

    async def _sweep_days(self, days: list[Day], keeping: Keeping) -> bool:
        """True when parts are left."""
        parts = PARTS
        for day in days:
            cutoffs = keeping.of(day)
            known, reached = self._swept.get(day.name, ([], None))
            # A sweep that is under way goes on to its end before it begins anew with what has passed since.
            if reached is None:
                if known == cutoffs or all(max(one.jobs, one.results) <= day.begins for one in cutoffs):
                    continue
                known, reached = cutoffs, NONE
            while reached is not None:
                if not parts:
                    return True
                parts -= 1
                reached = await self._sweep(day, known, reached)
                self._swept[day.name] = known, reached
        return False

    async def _sweep(self, day: Day, cutoffs: list[Cutoff], after: UUID) -> UUID | None:
        swept = await self.database.run(partial(_sweep, day, cutoffs, after))
        metrics.JOBS_FORGOTTEN.inc(swept.gone)
        return swept.reached if swept.looked == AT_ONCE else None

    async def _sweep_kept_details(self) -> bool:
        after = self._kept_details or NONE
        self._kept_details = await self.database.run(
            lambda connection: retention.sweep_kept_details(connection, after, AT_ONCE)
        )
        return self._kept_details is not None

    async def _forget_keys(self, keeping: Keeping) -> bool:
        """Each step of the cutoff goes once over all tables of keys."""
        if keeping.no_key_since != self._keys_before:
            self._keys_before = keeping.no_key_since
            self._blocks = {"completions": 0, "idempotency_keys": 0, "unique_jobs": 0}
        for table, first in list(self._blocks.items()):
            reached = await self.database.run(partial(_forget, table, first, self._keys_before))
            if reached is None:
                del self._blocks[table]
            else:
                self._blocks[table] = reached
        return bool(self._blocks)


async def _sweep(day: Day, cutoffs: list[Cutoff], after: UUID, connection: Conn) -> Swept:
    return await retention.sweep(connection, day, cutoffs, after, AT_ONCE)


async def _forget(table: KeyTable, first: int, before: datetime, connection: Conn) -> int | None:
    """Some parts; returns the block to go on with, None at the end."""
    end = await retention.blocks(connection, table)
    for block in range(first, first + PARTS * BLOCKS_AT_ONCE, BLOCKS_AT_ONCE):
        if block >= end:
            return None
        await retention.forget_keys(connection, table, block, block + BLOCKS_AT_ONCE, before)
    return first + PARTS * BLOCKS_AT_ONCE


async def _read(connection: Conn) -> Keeping:
    queues = await retention.of_queues(connection)
    lasts = {name: await retention.last_cutoff(connection, name, one.last) for name, one in queues.items() if one.last}
    return Keeping(
        await fleet.now(connection),
        await retention.get(connection),
        queues,
        {name: cutoff for name, cutoff in lasts.items() if cutoff is not None},
    )
