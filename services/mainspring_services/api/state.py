"""What the routes share: the database, the submitter, the known payload schemas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends, Request

from mainspring.runtime.health import Health
from mainspring.runtime.key_ring import KeyRing
from mainspring.runtime.payload_schema import PayloadSchemas
from mainspring.runtime.submit import Submitter
from mainspring.runtime.wake import Wake
from mainspring.store.pool import Database
from mainspring_services.api.event_feed import EventFeed


@dataclass(frozen=True, slots=True)
class ApiState:
    """The api's parts."""

    database: Database
    wake: Wake
    submitter: Submitter
    schemas: PayloadSchemas
    keys: KeyRing
    feed: EventFeed
    health: Health


async def _state(request: Request) -> ApiState:
    return cast(ApiState, request.app.state.parts)


State = Annotated[ApiState, Depends(_state)]
