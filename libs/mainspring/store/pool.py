"""Connections to Postgres: one pool for each process, errors translated once, retries decided in one place."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, TypeVar, cast

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from mainspring.domain.errors import Conflict, DatabaseUnavailable, Misconfigured
from mainspring.fault_points import is_lie
from mainspring.store import session
from mainspring.telemetry.logs import get_logger

log = get_logger(__name__)
#: A pooled connection, or one of the caller's own.
Conn = asyncpg.Connection | PoolConnectionProxy
T = TypeVar("T")

COMMAND_SECONDS = 15.0
#: A connection that was idle for longer may have been cut off on its way: it is closed, not used.
_IDLE_SECONDS = 60.0
#: Serialisation failures and deadlocks: the transaction did nothing, and doing it again is right.
_RETRYABLE = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError)
_MOST_TRIES = 4
_AWAY = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    # What the driver raises on a connection that was cut off between two uses, before it has noticed.
    asyncpg.InternalClientError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.QueryCanceledError,
    asyncpg.LockNotAvailableError,
    OSError,
    TimeoutError,
)


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Turn the driver's errors into ours. What isn't translated is a bug, or the caller's own SQL."""
    try:
        yield
    except _AWAY as error:
        raise DatabaseUnavailable(f"{type(error).__name__}: {error}") from error
    except asyncpg.UniqueViolationError as error:
        raise Conflict(str(error)) from error


async def _keep_session(_: Conn) -> None:
    """Spare the round trip that would reset a session: our statements set nothing in it."""


class Database:
    """A pool of at most ``most`` connections, opened when first used; through a pooler too (see ``session``).

    ``runs_handlers``: handlers use the connections too, so their sessions are reset each time and plan as usual.
    """

    def __init__(self, url: str, name: str, *, most: int = 6, runs_handlers: bool = False) -> None:
        self._url = url
        self._name = name
        self._most = most
        self._runs_handlers = runs_handlers
        self._is_lent = False
        self._pool: asyncpg.Pool | None = None
        self._opening = asyncio.Lock()
        # Taken from the pool and kept at hand: on an idle system a SELECT 1 takes 1.0 ms through it, and 0.76 ms so.
        self._spare: list[tuple[PoolConnectionProxy, float]] = []
        self._waiting = 0

    async def __aenter__(self) -> Database:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections, waiting shortly for the busy ones."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        try:
            async with asyncio.timeout(2):
                while self._spare:
                    await pool.release(self._spare.pop()[0])
                await pool.close()
        except TimeoutError:
            pool.terminate()

    def sibling(self, name: str) -> Database:
        """Another pool, of one connection, to the same server."""
        return Database(self._url, f"{self._name}-{name}", most=1)

    def renew(self) -> None:
        """End every connection now, with whatever waits on it, and open new ones when they are needed."""
        pool, self._pool = self._pool, None
        self._spare.clear()
        if pool is not None:
            pool.terminate()

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[Conn]:
        """A connection on which each statement commits by itself; through a pooler all do, when the block ends.

        Raises DatabaseUnavailable.
        """
        async with self._taken() as connection:
            if self._is_lent:
                async with self._lent_transaction(connection):
                    yield connection
            else:
                yield connection

    @contextlib.asynccontextmanager
    async def _lent_transaction(self, connection: Conn) -> AsyncIterator[None]:
        async with connection.transaction():
            await connection.execute(session.for_one_transaction(is_pinned=not self._runs_handlers))
            yield

    @contextlib.asynccontextmanager
    async def _taken(self) -> AsyncIterator[Conn]:
        with translated():
            pool = await self._open()
            connection = await self._take(pool)
            try:
                yield connection
            except BaseException as error:
                # Whatever state it is in, the pool knows how to clean it, or to close it; but for one.
                if isinstance(error, asyncpg.InternalClientError):
                    connection.terminate()
                await pool.release(connection)
                raise
            if self._waiting or not _is_alive(connection) or self._pool is not pool:
                await pool.release(connection)
            else:
                self._spare.append((connection, time.monotonic()))

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Conn]:
        """A connection inside a transaction that commits when the block ends. Raises DatabaseUnavailable."""
        async with self._taken() as connection:
            with translated():
                async with self._lent_transaction(connection) if self._is_lent else connection.transaction():
                    yield connection

    async def _take(self, pool: asyncpg.Pool) -> PoolConnectionProxy:
        while self._spare:
            connection, since = self._spare.pop()
            if _is_alive(connection):
                if time.monotonic() - since < _IDLE_SECONDS:
                    return connection
                connection.terminate()
            await pool.release(connection)
        self._waiting += 1
        try:
            return await pool.acquire(timeout=COMMAND_SECONDS)
        finally:
            self._waiting -= 1

    async def run(self, work: Callable[[Conn], Awaitable[T]]) -> T:
        """Run a single-statement ``work``, again after a deadlock or a serialisation failure."""
        return await self._repeated(self.connection, work)

    async def run_in_transaction(self, work: Callable[[Conn], Awaitable[T]]) -> T:
        """Run ``work`` in a transaction, again after a deadlock or a serialisation failure."""
        return await self._repeated(self.transaction, work)

    async def _repeated(
        self,
        scope: Callable[[], contextlib.AbstractAsyncContextManager[Conn]],
        work: Callable[[Conn], Awaitable[T]],
    ) -> T:
        for tries_left in range(_MOST_TRIES - 1, -1, -1):
            try:
                async with scope() as connection:
                    answer = await work(connection)
                if is_lie("database"):
                    raise DatabaseUnavailable("a test says so: it was done")
            except _RETRYABLE as error:
                if not tries_left:
                    raise DatabaseUnavailable(f"{type(error).__name__}: {error}") from error
            else:
                return answer
        raise AssertionError("unreachable")

    @contextlib.asynccontextmanager
    async def handler_connection(self) -> AsyncIterator[Conn]:
        """A connection inside a READ COMMITTED transaction that is rolled back unless ``commit`` was called."""
        with translated():
            pool = await self._open()
            connection = await self._take(pool)
        try:
            with translated():
                await connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
                if self._is_lent:
                    await connection.execute(session.for_one_transaction(is_pinned=False))
            yield connection
        finally:
            if _is_alive(connection) and connection.is_in_transaction():
                with contextlib.suppress(DatabaseUnavailable), translated():
                    await connection.execute("ROLLBACK")
            with contextlib.suppress(DatabaseUnavailable), translated():
                await pool.release(connection)

    @staticmethod
    async def commit(connection: Conn) -> None:
        """Commit a handler's transaction. DatabaseUnavailable means: unknown whether it was committed."""
        with translated():
            await connection.execute("COMMIT")

    async def _open(self) -> asyncpg.Pool:
        async with self._opening:
            if self._pool is None:
                first = await session.open_direct(self._url, self._name)
                self._is_lent = first is None
                if first is not None:
                    await first.close(timeout=session.CONNECT_SECONDS)
                else:
                    log.info("Postgres is reached through a pooler: a transaction for each use of a connection")
                # Our own statements leave nothing behind in a session; handlers' may. A lent one isn't ours to reset.
                keeps = self._is_lent or not self._runs_handlers
                options = (
                    session.lent(self._name)
                    if self._is_lent
                    else session.of_our_own(self._name, is_pinned=not self._runs_handlers)
                )
                self._pool = await asyncpg.create_pool(
                    self._url,
                    connect=cast("Any", session.connect),
                    min_size=0,
                    max_size=self._most,
                    timeout=session.CONNECT_SECONDS,
                    command_timeout=COMMAND_SECONDS,
                    max_inactive_connection_lifetime=_IDLE_SECONDS,
                    reset=_keep_session if keeps else None,
                    **options,
                )
            return self._pool


def _is_alive(connection: PoolConnectionProxy) -> bool:
    """False for one that was lost: the pool takes it back by itself, and then it can't even be asked."""
    try:
        return not connection.is_closed()
    except asyncpg.InterfaceError:
        return False


async def connect(url: str, name: str) -> asyncpg.Connection:
    """One session of one's own outside any pool: migrations and LISTEN.

    Raises DatabaseUnavailable; Misconfigured when a pooler is between, which lends sessions for a transaction at most.
    """
    with translated():
        connection = await session.open_direct(url, name)
    if connection is None:
        raise Misconfigured(
            "MAINSPRING_DATABASE_DIRECT_URL: a pooler is between; set it to a URL that leads straight to Postgres"
        )
    return connection


def jsonb(value: Any) -> str | None:
    """A value as JSON text for a jsonb parameter."""
    return None if value is None else json.dumps(value)
