"""What a session of ours is begun with, and whether it is ours at all: a pooler may be between.

A pooler such as PgBouncer in transaction mode lends a connection to Postgres for one transaction. A session's
parameters are refused or dropped there, and its prepared statements are somebody else's: so each use is a transaction,
the parameters are set within it, and statements are prepared without a name.
"""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlsplit

import asyncpg

#: Sent by us and unknown to any pooler: it arrives only where nobody is between.
_MARK = "mainspring.session"
CONNECT_SECONDS = 5.0
#: What each of several hosts gets.
HOST_SECONDS = 2.0
#: For each URL with several hosts, the one that was good the last time.
_last_good: dict[str, str] = {}
_BOUNDS = {"idle_in_transaction_session_timeout": "30s"}
# Our statements reach every stored row by an index. These settings keep statistics that are stale, or taken while a
# table was empty, from turning a plan to a scan; a JIT compile costs more than they do. Hash joins stay: what a
# statement has at hand (the arrays it was given, the rows it has locked) is joined by them.
_PINNED = {
    "jit": "off",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_mergejoin": "off",
    "plan_cache_mode": "force_generic_plan",
}


def for_one_transaction(*, is_pinned: bool) -> str:
    """The statements that set in a lent transaction what a session of one's own is begun with."""
    return "; ".join(
        f"SET LOCAL {name} = '{value}'" for name, value in (_BOUNDS | (_PINNED if is_pinned else {})).items()
    )


def of_our_own(name: str, *, is_pinned: bool) -> dict[str, Any]:
    """Options of a connection straight to Postgres."""
    settings = {"application_name": f"mainspring-{name}", _MARK: "direct", **_BOUNDS}
    return {"server_settings": settings | _PINNED if is_pinned else settings}


def lent(name: str) -> dict[str, Any]:
    """Options of a connection through a pooler."""
    return {"server_settings": {"application_name": f"mainspring-{name}"}, "statement_cache_size": 0}


def hosts_of(url: str) -> list[str]:
    """A URL for each host of ``url``, in its order: ``postgresql://user@one,two:5433/db``."""
    parts = urlsplit(url)
    user, at, hosts = parts.netloc.rpartition("@")
    return [parts._replace(netloc=f"{user}{at}{host}").geturl() for host in hosts.split(",")]


#: The host is away, hangs, or is a standby where a primary is asked for.
_NOT_THIS_ONE = (
    OSError,
    TimeoutError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)


async def connect(url: str, **options: Any) -> asyncpg.Connection:
    """Connect to the first host that is there and is what ``target_session_attrs`` asks for.

    The driver's own search has one timeout for all hosts: one that hangs would keep it from ever reaching the next. The
    host that was good the last time is tried first. Raises what the driver raises for the first host that fails.
    """
    urls = hosts_of(url)
    if len(urls) == 1:
        only: asyncpg.Connection = await asyncpg.connect(url, **options)
        return only
    if (good := _last_good.get(url)) is not None:
        urls = [good, *(one for one in urls if one != good)]
    options |= {"timeout": HOST_SECONDS}
    failure: Exception | None = None
    for one in urls:
        try:
            connection: asyncpg.Connection = await asyncpg.connect(one, **options)
        except asyncpg.ProtocolViolationError:
            raise
        except _NOT_THIS_ONE as error:
            failure = failure or error
        else:
            _last_good[url] = one
            return connection
    assert failure is not None  # noqa: S101  there are two hosts at least
    raise failure


async def open_direct(url: str, name: str) -> asyncpg.Connection | None:
    """A session of one's own at ``url``, unpinned; None through a pooler. Raises what the driver raises."""
    try:
        options = of_our_own(name, is_pinned=False) | {"statement_cache_size": 0}
        connection = await connect(url, timeout=CONNECT_SECONDS, **options)
    except asyncpg.ProtocolViolationError:
        # "unsupported startup parameter": Postgres itself takes any that has a dot in its name.
        return None
    asked = asyncio.create_task(_is_ours(connection))
    try:
        # Whoever opens holds up all others: a server that hangs just now must not hold up them. The question isn't
        # cancelled, which would take as long: its connection ends under it.
        await asyncio.wait([asked], timeout=CONNECT_SECONDS)
        if not asked.done():
            raise TimeoutError("connected, and then no answer")
        return connection if asked.result() else None
    finally:
        if not asked.done() or asked.cancelled() or asked.exception() is not None or not asked.result():
            connection.terminate()
            await asyncio.wait([asked], timeout=1)


async def _is_ours(connection: asyncpg.Connection) -> bool:
    # In a transaction, which a pooler doesn't tear apart.
    async with connection.transaction():
        return bool(await connection.fetchval(f"SELECT current_setting('{_MARK}', true)") == "direct")
