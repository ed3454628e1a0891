"""What your code submits, kept instead of sent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from mainspring.domain.job import JobRequest
from mainspring.domain.unique import Unique
from mainspring.tasks import Task


@dataclass(slots=True)
class Recorder:
    """Stands where a ``Client`` stands in your code, and keeps what it is asked to submit."""

    requests: list[JobRequest] = field(default_factory=list)

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
        connection: Any = None,  # noqa: ARG002  accepted as a client does; its transaction takes nothing back here
    ) -> UUID:
        """As ``Client.submit``: the request is checked and kept."""
        options = {"queue": queue, "priority": priority, "run_at": run_at, "delay": delay, "unique": unique}
        self.requests.append(request.with_options(idempotency_key=idempotency_key, **options))
        return uuid4()

    async def submit_many(self, requests: Sequence[JobRequest], *, connection: Any = None) -> list[UUID]:
        """As ``Client.submit_many``."""
        return [await self.submit(one, connection=connection) for one in requests]

    def payloads(self, one: Task[Any, Any]) -> list[dict[str, Any]]:
        """The payloads that were submitted for a task, in order."""
        return [json.loads(request.payload) for request in self.requests if request.task == one.name]
