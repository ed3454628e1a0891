"""LISTEN on a connection of its own. A wake-up carries a hint at most: the system works without it, a little later."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping

import asyncpg

from mainspring.domain.errors import DatabaseUnavailable, Misconfigured
from mainspring.domain.retry import reconnect_delay
from mainspring.store.pool import connect, translated
from mainspring.telemetry.logs import get_logger

log = get_logger(__name__)
#: A scheduler is woken: something became due, in the queue that is named.
DUE_CHANNEL = "mainspring_due"
#: A worker is woken, named by its id: one of its jobs is to stop.
CANCEL_CHANNEL = "mainspring_cancel"
#: Apis and schedulers hear of a queue's credit that is lent, or is so no longer.
LOAN_CHANNEL = "mainspring_loan"


async def listen(url: str, name: str, heard: Mapping[str, Callable[[str], None]]) -> None:
    """Call what is given for a channel with each notification's text, and all with "" after each reconnect.

    Ends when it is cancelled, or when nothing can be heard there. Whoever is refused, by a password that was changed or
    too few connections, tries again: the service goes on without it.
    """
    failures = 0
    while True:
        try:
            connection = await connect(url, f"{name}-listen")
            closed = asyncio.Event()
            connection.add_termination_listener(lambda _, closed=closed: closed.set())
            try:
                with translated():
                    for channel, hear in heard.items():
                        await connection.add_listener(channel, lambda *said, hear=hear: hear(said[3]))
                failures = 0
                for hear in heard.values():
                    hear("")
                await closed.wait()
            finally:
                await connection.close(timeout=1)
        except DatabaseUnavailable:
            failures += 1
        except asyncpg.PostgresError as error:
            failures += 1
            log.warning("no wake-ups for now: refused", channels=[*heard], why=str(error))
        except Misconfigured as error:
            # Through a pooler a notification reaches nobody.
            log.warning("no wake-ups: everything comes a little later", channels=[*heard], why=str(error))
            return
        await asyncio.sleep(reconnect_delay(failures, random.random()) if failures else 0)  # noqa: S311  a delay
