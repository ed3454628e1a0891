"""What a session of ours is begun with, and whether it is ours at all: a pooler may be between.

A pooler such as PgBouncer in transaction mode lends a connection to Postgres for one transaction. A session's
parameters are refused or dropped there, and its prepared statements are somebody else's: so each use is a transaction,
the parameters are set within it, and statements are prepared without a name.
"""

from __future__ import annotations

from typing import Any

import asyncpg

#: Sent by us and unknown to any pooler: it arrives only where nobody is between.
_MARK = "mainspring.session"
CONNECT_SECONDS = 5.0
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
#: The pinned settings for one transaction.
PIN_TRANSACTION = "; ".join(f"SET LOCAL {name} = '{value}'" for name, value in _PINNED.items())


def of_our_own(name: str, *, is_pinned: bool) -> dict[str, Any]:
    """Options of a connection straight to Postgres."""
    settings = {"application_name": f"mainspring-{name}", _MARK: "direct", **_BOUNDS}
    return {"server_settings": settings | _PINNED if is_pinned else settings}


def lent(name: str) -> dict[str, Any]:
    """Options of a connection through a pooler."""
    return {"server_settings": {"application_name": f"mainspring-{name}"}, "statement_cache_size": 0}


async def open_direct(url: str, name: str) -> asyncpg.Connection | None:
    """A session of one's own at ``url``, unpinned; None through a pooler. Raises what the driver raises."""
    try:
        connection: asyncpg.Connection = await asyncpg.connect(
            url, timeout=CONNECT_SECONDS, **of_our_own(name, is_pinned=False)
        )
    except asyncpg.ProtocolViolationError:
        # "unsupported startup parameter": Postgres itself takes any that has a dot in its name.
        return None
    is_ours = False
    try:
        # In a transaction, which a pooler doesn't tear apart.
        async with connection.transaction():
            is_ours = await connection.fetchval(f"SELECT current_setting('{_MARK}', true)") == "direct"
    finally:
        if not is_ours:
            connection.terminate()
    return connection if is_ours else None
