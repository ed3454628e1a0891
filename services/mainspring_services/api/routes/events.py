"""/v1/events."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated

from fastapi import APIRouter, Header, Query
from fastapi.responses import StreamingResponse

from mainspring.domain.access import Scope
from mainspring.domain.errors import Forbidden, InvalidInput, Unauthenticated, Unavailable
from mainspring.store.history import Page, Place
from mainspring.telemetry.logs import get_logger
from mainspring_services.api.access import READS
from mainspring_services.api.openapi import USUAL_PROBLEMS
from mainspring_services.api.schemas.events import EventQuery, event_out
from mainspring_services.api.state import State

log = get_logger(__name__)
router = APIRouter(prefix="/v1/events", tags=["events"], responses=USUAL_PROBLEMS)
#: A stream is never silent for longer, so that proxies, and we, learn that the other side is gone.
QUIET_SECONDS = 15.0
_STREAM = {
    "description": "`id`, `event` and `data` of the HTML standard's event streams; `data` is an Event.",
    "content": {"text/event-stream": {"schema": {"type": "string"}}},
}


@router.get("", response_class=StreamingResponse, responses={200: _STREAM}, dependencies=[READS])
async def stream(
    state: State,
    asked: Annotated[EventQuery, Query()],
    authorization: Annotated[str | None, Header(include_in_schema=False)] = None,
    *,
    last_event_id: Annotated[
        str | None, Header(description="Where an earlier stream ended: nothing is left out.")
    ] = None,
) -> StreamingResponse:
    """What happens to jobs, as it is committed: each ended attempt, each turn off the straight path, each action.

    Without `Last-Event-ID` from now on. The last event of those that were read together carries an `id`.
    """
    pages = state.feed.follow(Place.parse(last_event_id) if last_event_id else None)
    # Read before the answer begins: a place that can't be found is a problem, not a broken stream.
    first = await anext(pages, None)
    if first is None:
        raise Unavailable("this api is stopping")

    async def may_read() -> bool:
        with contextlib.suppress(Unauthenticated, Forbidden):
            await state.keys.caller(authorization, Scope.READ)
            return True
        return False

    written = _written(first, pages, asked, may_read)
    return StreamingResponse(written, media_type="text/event-stream", headers={"Cache-Control": "no-store"})


async def _written(
    first: Page, pages: AsyncIterator[Page], asked: EventQuery, may_read: Callable[[], Awaitable[bool]]
) -> AsyncIterator[str]:
    loop = asyncio.get_running_loop()
    yield f"retry: 2000\n\n{_text(first, asked) or _place(first)}"
    written_at = loop.time()
    try:
        async for page in pages:
            if not await may_read():
                return  # its key was revoked
            text = _text(page, asked)
            if text or loop.time() - written_at > QUIET_SECONDS:
                yield text or _place(page)
                written_at = loop.time()
    except (Unavailable, InvalidInput) as error:
        # The answer has begun, so ending it is all that can be said; the client comes back with its last id.
        log.warning("event stream ended", error=str(error))


def _place(page: Page) -> str:
    """Where the client would go on: an id alone is no event to it."""
    return f"id: {page.place}\n\n"


def _text(page: Page, asked: EventQuery) -> str:
    """The page as events, the last of which carries the place behind it."""
    shown = [row for row in page.rows if asked.wants(row)]
    texts = [f"event: {row['event']}\ndata: {json.dumps(event_out(row), default=str)}\n\n" for row in shown]
    if texts:
        texts[-1] = f"id: {page.place}\n{texts[-1]}"
    return "".join(texts)
