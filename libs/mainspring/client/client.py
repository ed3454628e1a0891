"""Submitting jobs and looking after them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from mainspring.client.schedules import Schedules
from mainspring.domain.errors import JobFailed, NotFinished, NotFound
from mainspring.domain.job import JobRequest
from mainspring.domain.states import State
from mainspring.domain.unique import Unique
from mainspring.runtime.submit import Submitter, submit_in
from mainspring.runtime.wake import Wake
from mainspring.store import jobs
from mainspring.store.pool import Database
from mainspring.telemetry.tracing import current_traceparent

#: How often the row is read while a result is waited for.
RESULT_POLL_SECONDS = 0.1


class Client:
    """Submits and looks after jobs. Use it as an async context manager."""

    def __init__(self, database_url: str, *, connections: int = 4) -> None:
        self._database = Database(database_url, "client", most=connections)
        wake = Wake(self._database)
        self._submitter = Submitter(self._database, wake)
        #: Creating, changing and triggering schedules.
        self.schedules = Schedules(self._database, wake)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._database.close()

    async def submit(
        self,
        request: JobRequest,
        *,
        queue: str | None = None,
        priority: int | None = None,
        run_at: datetime | None = None,
        delay: timedelta | None = None,
        idempotency_key: str | None = None,
        unique: Unique | None = None,
        connection: Any = None,
    ) -> UUID:
        """Submit one job and return its id; a repeated idempotency key returns the first job's.

        ``unique``: if a job that is the same is there, its id is returned, and it may be changed.

        The job continues the OpenTelemetry span that is current, if there is one.

        ``connection``: an asyncpg connection inside the caller's transaction. Raises InvalidInput,
        DatabaseUnavailable.
        """
        wanted = request.with_options(
            queue=queue,
            priority=priority,
            run_at=run_at,
            delay=delay,
            idempotency_key=idempotency_key,
            unique=unique,
            traceparent=request.traceparent or current_traceparent(),
        )
        if connection is not None:
            (accepted,) = await submit_in(connection, [wanted])
        else:
            accepted = await self._submitter.submit(wanted)
        return accepted.id

    async def submit_many(self, requests: Sequence[JobRequest], *, connection: Any = None) -> list[UUID]:
        """Submit all or none, in one transaction; ids in the order of ``requests``."""
        context = current_traceparent()
        requests = [one if one.traceparent else one.with_options(traceparent=context) for one in requests]
        if connection is not None:
            accepted = await submit_in(connection, requests)
        else:
            accepted = await self._submitter.submit_many(requests)
        return [one.id for one in accepted]

    async def state(self, job_id: UUID) -> State:
        """The job's state. Raises NotFound."""
        found = await self._database.run(lambda connection: jobs.state_of(connection, job_id))
        if found is None:
            raise NotFound(f"no job {job_id}")
        return found

    async def result(self, job_id: UUID, *, wait: timedelta = timedelta(0)) -> Any:
        """The job's result as JSON values, once it has succeeded; waits up to ``wait`` for its end.

        Raises NotFound; JobFailed when it is dead or cancelled; NotFinished when it hasn't ended in time.
        """
        deadline = time.monotonic() + wait.total_seconds()
        while True:
            row = await self._database.run(lambda connection: jobs.get(connection, job_id))
            if row is None:
                raise NotFound(f"no job {job_id}")
            state = State(row["state"])
            if state is State.SUCCEEDED:
                return None if row["result"] is None else json.loads(row["result"])
            if state.is_final:
                raise JobFailed(f"job {job_id} is {state.value}: {_why(row)}")
            if time.monotonic() >= deadline:
                raise NotFinished(f"job {job_id} is {state.value}")
            await asyncio.sleep(RESULT_POLL_SECONDS)

    async def cancel(self, job_id: UUID) -> State:
        """Cancel a job; returns its state afterwards (``running``: its worker is stopping it). Raises NotFound."""
        found = await self._database.run_in_transaction(lambda connection: jobs.cancel(connection, job_id, "client"))
        if found is None:
            raise NotFound(f"no job {job_id}")
        return found


def _why(row: Any) -> str:
    error = json.loads(row["error"]) if row["error"] else None
    return f"{error['type']}: {error['message']}" if error else str(row["reason"])
