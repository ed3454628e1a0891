"""What a service needs before it can begin is waited for; what it says at its end, only if somebody listens."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

from mainspring.domain.errors import Unavailable
from mainspring.telemetry.logs import get_logger

log = get_logger(__name__)
T = TypeVar("T")
RETRY_SECONDS = 0.5


async def when_available(work: Callable[[], Awaitable[T]]) -> T:
    """What ``work`` answers, once its server is there and takes it; says once that it waits."""
    is_said = False
    while True:
        try:
            return await work()
        except Unavailable as error:
            if not is_said:
                log.info("waiting", what=str(error))
                is_said = True
            await asyncio.sleep(RETRY_SECONDS)


async def if_available(work: Callable[[], Awaitable[object]]) -> None:
    """Do ``work`` as a courtesy: a stop succeeds without it, and time makes up for it."""
    with contextlib.suppress(Unavailable):
        await work()
