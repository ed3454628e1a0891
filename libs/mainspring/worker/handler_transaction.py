"""A handler's own transaction, which is one atom with the completion of its jobs.

The block only opens it. When the handler has returned, ``commit`` writes the fenced transitions, completions, attempts
and results on the same connection, the fenced statement last, and commits. An exception after the block, or a job that
may not complete any more, rolls everything back.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NamedTuple
from uuid import UUID

from mainspring.context import Connection
from mainspring.domain.errors import DatabaseUnavailable
from mainspring.fault_points import reach
from mainspring.store import attempts, settle
from mainspring.store.pool import Database


class Refused(NamedTuple):
    """Why nothing was committed: jobs that belong to a later attempt, and jobs whose effect exists already."""

    stale: frozenset[UUID]
    duplicate: frozenset[UUID]

    def __bool__(self) -> bool:
        return bool(self.stale or self.duplicate)


class HandlerTransaction:
    """At most one, in one call of a handler."""

    def __init__(self, database: Database, owner: str) -> None:
        self._database = database
        self._owner = owner
        self._resources = AsyncExitStack()
        self._connection: Any = None

    @asynccontextmanager
    async def block(self) -> AsyncIterator[Connection]:
        """The block in which the handler writes. Raises RuntimeError on a second one."""
        if self._connection is not None:
            raise RuntimeError(f"{self._owner}.transaction() can be entered once in an attempt")
        self._connection = await self._resources.enter_async_context(self._database.handler_connection())
        yield self._connection
        await settle.guard_handler_transaction(self._connection)

    @property
    def has_begun(self) -> bool:
        """True once the handler has entered the block."""
        return self._connection is not None

    async def commit(self, successes: Sequence[settle.Success]) -> Refused:
        """Write the completions on the handler's own connection and commit, unless one of them is refused.

        Raises DatabaseUnavailable.
        """
        try:
            applied = await settle.succeed(self._connection, successes) if successes else {}
            refused = Refused(
                frozenset(one.id for one in successes if one.id not in applied),
                frozenset(id_ for id_, is_duplicate in applied.items() if is_duplicate),
            )
            if not refused:
                await self._database.commit(self._connection)
                reach("handler.committed")
        except DatabaseUnavailable:
            if not successes or not await self._was_committed(successes[0]):
                raise
            return Refused(frozenset(), frozenset())
        else:
            return refused
        finally:
            await self._resources.aclose()

    async def rollback(self) -> None:
        """Undo the handler's writes; nothing when there were none."""
        if self._connection is not None:
            await self._resources.aclose()

    async def _was_committed(self, success: settle.Success) -> bool:
        """The connection broke around the commit: only an attempt's own row says whether it happened."""
        async with self._database.connection() as connection:
            return bool(await attempts.recorded(connection, [(success.id, success.fence)]))
