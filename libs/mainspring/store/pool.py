"""Connections to Postgres: one pool for each process, errors translated once, retries decided in one place."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, TypeVar

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from mainspring.domain.errors import Conflict, DatabaseUnavailable
from mainspring.fault_points import is_lie

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
    """A pool of at most ``most`` connections, opened when first used.

    ``runs_handlers``: handlers use the connections too, so their sessions are reset each time and plan as usual.
    """

    def __init__(self, url: str, name: str, *, most: int = 6, runs_handlers: bool = False) -> None:
        self._url = url
        self._name = name
        self._most = most
        # Our own statements leave nothing behind in a session; handlers' may.
        self._reset = None if runs_handlers else _keep_session
        self._planner = {} if runs_handlers else _PINNED
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

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[Conn]:
        """A connection outside any transaction: each statement commits by itself. Raises DatabaseUnavailable."""
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
        async with self.connection() as connection:
            with translated():
                async with connection.transaction():
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
            yield connection
        finally:
            if not connection.is_closed() and connection.is_in_transaction():
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
                self._pool = await asyncpg.create_pool(
                    self._url,
                    min_size=0,
                    max_size=self._most,
                    timeout=5,
                    command_timeout=COMMAND_SECONDS,
                    max_inactive_connection_lifetime=_IDLE_SECONDS,
                    reset=self._reset,
                    server_settings={
                        "application_name": f"mainspring-{self._name}",
                        "idle_in_transaction_session_timeout": "30s",
                        **self._planner,
                    },
                )
            return self._pool


def _is_alive(connection: PoolConnectionProxy) -> bool:
    """False for one that was lost: the pool takes it back by itself, and then it can't even be asked."""
    try:
        return not connection.is_closed()
    except asyncpg.InterfaceError:
        return False


async def connect(url: str, name: str) -> asyncpg.Connection:
    """One connection outside any pool: migrations and LISTEN. Raises DatabaseUnavailable."""
    with translated():
        return await asyncpg.connect(url, timeout=5, server_settings={"application_name": f"mainspring-{name}"})


def jsonb(value: Any) -> str | None:
    """A value as JSON text for a jsonb parameter."""
    return None if value is None else json.dumps(value)
