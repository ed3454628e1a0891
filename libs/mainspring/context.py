"""What a handler is given: who it is, and a transaction that commits together with the completion."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID


class Connection(Protocol):
    """The part of a database connection that a handler's own writes need (asyncpg's has these)."""

    async def execute(self, query: str, *args: Any) -> str:
        """Run a statement; return its status."""
        ...

    async def executemany(self, command: str, args: Any) -> None:
        """Run a statement for each row of arguments."""
        ...

    async def fetch(self, query: str, *args: Any) -> list[Any]:
        """Run a query; return its rows."""
        ...

    async def fetchrow(self, query: str, *args: Any) -> Any:
        """Run a query; return its first row, or None."""
        ...

    async def fetchval(self, query: str, *args: Any) -> Any:
        """Run a query; return the first column of its first row, or None."""
        ...


@dataclass(frozen=True, slots=True)
class LastRun:
    """An earlier job of the same schedule that has ended."""

    job_id: UUID
    #: succeeded, cancelled or dead.
    state: str
    finished_at: datetime
    #: None for a job that was triggered beside the nominal times.
    nominal_at: datetime | None
    #: What it returned; None unless it succeeded.
    result: Any
    #: The type and message of its last error; None when it succeeded.
    error: dict[str, Any] | None


class JobContext(ABC):
    """A handler's view of the attempt that it is."""

    job_id: UUID
    task: str
    queue: str
    #: Counts every start of the job; grows for ever.
    attempt: int
    #: Grows with each change of the job's state: an outside system can refuse an older one.
    fence: int
    #: The stable name of this job's effect, the same over all attempts: give it to outside systems.
    idempotency_key: str
    schedule: str | None
    nominal_at: datetime | None
    #: The W3C trace context of this attempt, for calls to other systems; with traces off, the one the job came with.
    traceparent: str | None

    @abstractmethod
    def transaction(self) -> AbstractAsyncContextManager[Connection]:
        """Writes made in this block commit together with the job's completion, or not at all.

        Leaving the block commits nothing yet: the commit follows when the handler has returned. An exception
        after the block rolls it all back; so does the loss of the lease. One block in an attempt; async
        handlers only; the tables live in Mainspring's own database. Raises RuntimeError on a second block.
        """

    @abstractmethod
    async def last_run(self, *, succeeded: bool = False) -> LastRun | None:
        """The last run of this job's schedule, or the last that ``succeeded``: to go on where it left off.

        None for the first run, and for a job of no schedule. Async handlers only. Raises Unavailable.
        """
