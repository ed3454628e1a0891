"""The history over HTTP."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from mainspring_services.api.schemas.common import NameText


class EventQuery(BaseModel):
    """Which events to send; all filters must be passed."""

    model_config = ConfigDict(extra="forbid")

    event: list[NameText] = Field(default_factory=list, description="One of these, such as `attempt` or `redrive`.")
    queue: NameText | None = None
    task: NameText | None = None
    job_id: UUID | None = None

    def wants(self, row: Any) -> bool:
        """True when a row of the history passes."""
        asked = {"queue": self.queue, "task": self.task, "job_id": self.job_id}
        return (not self.event or row["event"] in self.event) and all(
            value is None or row[name] == value for name, value in asked.items()
        )


class Event(BaseModel):
    """An attempt that has ended (`event` is `attempt`), a turn off the straight path, or a person's action."""

    at: datetime
    event: str
    job_id: UUID | None
    task: str | None
    queue: str | None
    fence: int | None
    author: str | None
    details: dict[str, Any]


def event_out(row: Any) -> dict[str, Any]:
    """A row of the history as an Event, ready for JSON."""
    made = Event(
        **{name: row[name] for name in Event.model_fields if name != "details"}, details=json.loads(row["details"])
    )
    return made.model_dump(mode="json")
