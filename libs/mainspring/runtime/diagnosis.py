"""What is wrong with an installation, check by check, and how to mend it: ``mainspring doctor``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mainspring.broker import topology
from mainspring.broker.connection import connect
from mainspring.broker.probe import look_at
from mainspring.domain.errors import MainspringError
from mainspring.domain.zones import zone_data_version
from mainspring.runtime import clock
from mainspring.runtime.settings import Settings
from mainspring.store import audit, fleet, migrate, queues, server, zone_data
from mainspring.store.pool import Conn, Database

LEAST_POSTGRES = 150_000
#: A transaction that is open for longer, in seconds, slows everything: every scan walks over the dead rows it keeps.
LONGEST_TRANSACTION = 600
LEAST_RABBITMQ = (3, 10)
#: More than this, and times on this machine's screens and in Postgres tell different stories.
MOST_OFFSET = 0.25


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: what was found, and what to do when it isn't well."""

    check: str
    is_ok: bool
    found: str
    mend: str = ""


async def diagnose(settings: Settings) -> list[Finding]:
    """Check the servers, the schema, the topology, the clocks and the fleet, from here."""
    async with Database(settings.database_url, "doctor", most=1) as database:
        try:
            findings, queues = await database.run(_of_database)
        except MainspringError as error:
            mend = "check MAINSPRING_DATABASE_URL, and that Postgres runs"
            findings, queues = [Finding("postgres", False, str(error), mend)], []
    return findings + await _of_broker(settings, queues)


async def _of_database(connection: Conn) -> tuple[list[Finding], list[str]]:
    """The findings, and the names of the queues, which are unknown while the schema doesn't fit."""
    facts = await server.facts(connection)
    ahead = await clock.offset(connection)
    findings = [
        Finding("postgres", True, f"answers, version {facts['version']}"),
        _judged("postgres version", facts["version_number"] >= LEAST_POSTGRES, facts["version"], "use 15 or newer"),
        _judged(
            "postgres writes",
            not facts["read_only"],
            "read-only" if facts["read_only"] else "takes writes",
            "point MAINSPRING_DATABASE_URL at the primary",
        ),
        _judged("clock", abs(ahead) <= MOST_OFFSET, f"{ahead * 1000:+.0f} ms from Postgres's", "run NTP on both"),
        _judged(
            "oldest transaction",
            (age := await server.horizon(connection)) < LONGEST_TRANSACTION,
            f"{age:.0f} s old",
            "find it in pg_stat_activity and end it: dead rows pile up behind it",
        ),
        await _of_schema(connection),
    ]
    if not findings[-1].is_ok:
        return findings, []
    names = [one.name for one in await queues.all_queues(connection)]
    judged = [await _of_zone_data(connection), *await _of_fleet(connection, names), await _of_rows(connection)]
    return [*findings, *judged], names


async def _of_rows(connection: Conn) -> Finding:
    """What the auditor asks each minute, asked now."""
    found = [finding for check in audit.CHECKS for finding in await audit.look(connection, check)]
    checks = sorted({finding.check for finding in found})
    what = f"{len(found)} findings: {', '.join(checks)}" if found else f"{len(audit.CHECKS)} checks found nothing"
    return _judged("audit", not found, what, "look at the scheduler's log: it mends what can be mended")


async def _of_schema(connection: Conn) -> Finding:
    try:
        problem = await migrate.check(connection)
    except MainspringError as error:
        return Finding("schema", False, str(error), "use a newer release of Mainspring")
    return _judged("schema", problem is None, problem or "fits this release", "run `mainspring migrate`")


async def _of_zone_data(connection: Conn) -> Finding:
    ours, fleets = zone_data_version(), await zone_data.release(connection)
    return _judged(
        "zone data",
        fleets in (None, ours),
        ours if fleets in (None, ours) else f"{ours} here, {fleets} in the fleet",
        "install the same release of the zone data on every machine (the package tzdata)",
    )


async def _of_fleet(connection: Conn, queues: Sequence[str]) -> list[Finding]:
    served = {queue for worker in await fleet.workers(connection) for queue in worker["queues"]}
    unserved = [name for name in queues if name not in served]
    has_leader = await server.has_leader(connection)
    return [
        _judged(
            "scheduler",
            has_leader,
            "one leads" if has_leader else "none has the lease",
            "start `mainspring scheduler`",
        ),
        _judged(
            "workers",
            not unserved,
            f"nobody serves {', '.join(unserved[:10])}" if unserved else "every queue is served",
            "start `mainspring worker` with the modules of its tasks",
        ),
    ]


async def _of_broker(settings: Settings, queues: Sequence[str]) -> list[Finding]:
    try:
        link = await connect(settings.amqp_url, "doctor")
    except MainspringError as error:
        return [Finding("rabbitmq", False, str(error), "check MAINSPRING_AMQP_URL, and that RabbitMQ runs")]
    try:
        wanted = [one.name for one in topology.fixed().queues]
        for name in queues:
            wanted += [one.name for one in topology.for_queue(name).queues]
        missing = (await look_at(link, wanted)).missing
        version = link.server_version
        return [
            Finding("rabbitmq", True, f"answers, version {version}"),
            _judged("rabbitmq version", _numbers(version) >= LEAST_RABBITMQ, version, "use 3.10 or newer"),
            _judged(
                "topology",
                not missing,
                f"{len(missing)} of {len(wanted)} queues are missing" if missing else f"{len(wanted)} queues are there",
                "start `mainspring scheduler`: it declares them",
            ),
        ]
    finally:
        await link.close()


def _judged(check: str, is_ok: bool, found: str, mend: str) -> Finding:
    return Finding(check, is_ok, found, "" if is_ok else mend)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
