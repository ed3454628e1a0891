"""The migration runner: numbered, forward-only SQL files, each applied once, in order.

A file's head says its phase (``expand``: old and new services work on it; ``contract``: only new ones do) and
whether it is breaking for services that don't know it. An advisory lock on a direct connection keeps two
runners apart; checksums notice a file that was changed after it was applied.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from dataclasses import dataclass
from importlib.resources import files

import asyncpg

from mainspring.domain.errors import DatabaseUnavailable, Misconfigured
from mainspring.store import partitions
from mainspring.store.pool import Conn, Database, connect, translated
from mainspring.telemetry.logs import get_logger

log = get_logger(__name__)
LOCK_KEY = 0x6D61696E  # "main"
LOCK_SECONDS = 60.0
_HEAD = re.compile(r"-- phase: (expand|contract)\n-- breaking: (yes|no)\n")

_PREPARE = """
CREATE SCHEMA IF NOT EXISTS mainspring;
CREATE TABLE IF NOT EXISTS mainspring.schema_migrations (
    version integer PRIMARY KEY,
    name text NOT NULL,
    phase text NOT NULL,
    breaking boolean NOT NULL,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
"""


@dataclass(frozen=True, slots=True)
class Migration:
    """One file."""

    version: int
    name: str
    phase: str
    is_breaking: bool
    text: str

    @property
    def checksum(self) -> str:
        """What is compared with the database."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def known() -> list[Migration]:
    """The migrations of this release, in order. Raises Misconfigured for a file without its head."""
    folder = files("mainspring.store").joinpath("migrations")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [_parse(name, folder.joinpath(name).read_text()) for name in names]


def _parse(name: str, text: str) -> Migration:
    head = _HEAD.match(text)
    if head is None:
        raise Misconfigured(f"migration {name} doesn't begin with its phase and whether it is breaking")
    return Migration(int(name.split("_", maxsplit=1)[0]), name.removesuffix(".sql"), head[1], head[2] == "yes", text)


async def migrate(url: str) -> list[str]:
    """Bring the database up to this release; return what was applied. Safe to run many times and side by side.

    Raises DatabaseUnavailable when Postgres is away or another runner holds the lock for a minute,
    Misconfigured when an applied file was changed.
    """
    connection = await connect(url, "migrate")
    try:
        with translated():
            await _lock(connection)
            applied = [one.name for one in await _pending(connection) if await _apply(connection, one)]
            await partitions.ensure(connection)
            return applied
    finally:
        await connection.close()


async def _lock(connection: asyncpg.Connection) -> None:
    """Poll: a waiting advisory lock would hold a snapshot, which concurrent index builds wait for."""
    is_said = False
    async with asyncio.timeout(LOCK_SECONDS):
        while not await connection.fetchval("SELECT pg_try_advisory_lock($1)", LOCK_KEY):
            if not is_said:
                log.info("waiting for another migration to finish")
                is_said = True
            await asyncio.sleep(0.05)


async def _pending(connection: asyncpg.Connection) -> list[Migration]:
    await connection.execute(_PREPARE)
    rows = await connection.fetch("SELECT version, checksum FROM mainspring.schema_migrations")
    checksums = {row["version"]: row["checksum"] for row in rows}
    for one in known():
        if checksums.get(one.version, one.checksum) != one.checksum:
            raise Misconfigured(f"migration {one.name} was changed after it had been applied")
    return [one for one in known() if one.version not in checksums]


async def _apply(connection: asyncpg.Connection, one: Migration) -> bool:
    async with connection.transaction():
        # A migration that can't get its lock soon must not make everybody queue behind it.
        await connection.execute("SET LOCAL lock_timeout = '5s'; SET LOCAL statement_timeout = '10min'")
        await connection.execute(one.text)
        await connection.execute(
            "INSERT INTO mainspring.schema_migrations (version, name, phase, breaking, checksum)"
            " VALUES ($1, $2, $3, $4, $5)",
            *(one.version, one.name, one.phase, one.is_breaking, one.checksum),
        )
    log.info("migration applied", name=one.name)
    return True


async def check(connection: Conn) -> str | None:
    """None when this release can work on the schema; why it must wait otherwise.

    Raises Misconfigured when the schema is newer in a way that breaks this release.
    """
    with translated():
        try:
            rows = await connection.fetch("SELECT version, name, breaking FROM mainspring.schema_migrations")
        except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
            return "the schema is not there yet: run `mainspring migrate`"
    ours = {one.version for one in known()}
    newer = sorted(row["name"] for row in rows if row["breaking"] and row["version"] not in ours)
    if newer:
        raise Misconfigured(f"the schema is newer than this release and breaks it: {', '.join(newer)}")
    missing = ours - {row["version"] for row in rows}
    return f"the schema lacks {len(missing)} migrations: run `mainspring migrate`" if missing else None


async def wait_for_schema(url: str, name: str) -> None:
    """Return when the schema fits this release; says once what it waits for."""
    is_said = ""
    async with Database(url, name, most=1) as database:
        while True:
            try:
                problem = await database.run(check)
            except DatabaseUnavailable as error:
                problem = f"Postgres doesn't answer: {error}"
            if problem is None:
                return
            if problem.split(":")[0] != is_said:
                log.info("waiting", what=problem)
                is_said = problem.split(":")[0]
            await asyncio.sleep(0.2)
