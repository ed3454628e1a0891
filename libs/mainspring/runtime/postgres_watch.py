"""Whether Postgres answers and takes writes, for /readyz; and how far this process's clock is from it.

The look has a connection of its own. When that gets no answer and a new one does, the way between is what failed: a
firewall forgot the connections, or a machine was replaced under its address. Then all of them are given up at once;
otherwise each would wait for its own timeout.
"""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple

from mainspring.domain.errors import DatabaseUnavailable
from mainspring.domain.zones import zone_data_version
from mainspring.runtime.clock import ahead
from mainspring.runtime.health import Health
from mainspring.runtime.loop import Pass
from mainspring.store import server
from mainspring.store.pool import Conn, Database
from mainspring.telemetry import metrics
from mainspring.telemetry.logs import get_logger

log = get_logger(__name__)
WATCH_SECONDS = 2.0
#: A server that takes longer to answer is as good as away.
ANSWER_SECONDS = 3.0
#: How far a clock may be off, in seconds, before it is worth a word: whoever reads its logs is misled.
CLOCK_TOLERANCE = 0.25


class PostgresWatch:
    """A loop of every service."""

    def __init__(self, database: Database, health: Health) -> None:
        self._database = database
        self._watched = database.sibling("watch")
        self._health = health
        #: A look that is under way. It is not cancelled: under a server that hangs, that would take as long.
        self._look: asyncio.Task[Answer] | None = None
        self._is_clock_off = False

    async def run_once(self) -> Pass:
        """Look once, or go on waiting for the answer to the last look."""
        self._look = self._look or asyncio.create_task(self._watched.run(_ask))
        done, _ = await asyncio.wait([self._look], timeout=ANSWER_SECONDS)
        if not done:
            self._health.down("postgres", f"no answer within {ANSWER_SECONDS:g} s")
            if await self._answers_anew() and not self._look.done():
                log.warning("Postgres answers on a new connection and not on the old ones: they are given up")
                metrics.CONNECTIONS_GIVEN_UP.inc()
                self._watched.renew()
                self._database.renew()
            return Pass()
        look, self._look = self._look, None
        try:
            answer = look.result()
        except DatabaseUnavailable as error:
            self._health.down("postgres", str(error))
            return Pass()
        self.note(answer)
        if answer.is_read_only:
            self._health.down("postgres", "it takes no writes: a standby, or read-only")
        else:
            self._health.up("postgres")
        return Pass()

    def note(self, answer: Answer) -> None:
        """What is odd and decides nothing: a clock that is off, other zone data than the fleet's."""
        metrics.CLOCK_OFFSET.set(answer.offset)
        is_off = abs(answer.offset) > CLOCK_TOLERANCE
        if is_off and not self._is_clock_off:
            log.warning("this machine's clock is not Postgres's", ahead_seconds=round(answer.offset, 3))
        self._is_clock_off = is_off
        self._health.note("clock", f"{answer.offset:+.3f} s from Postgres's clock" if is_off else None)
        is_other = answer.zone_data not in (None, zone_data_version())
        self._health.note(
            "zone_data", f"{zone_data_version()} here, {answer.zone_data} in the fleet" if is_other else None
        )

    async def _answers_anew(self) -> bool:
        fresh = self._database.sibling("probe")
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await fresh.run(_ask)
        except (DatabaseUnavailable, TimeoutError):
            return False
        else:
            return True
        finally:
            fresh.renew()


class Answer(NamedTuple):
    """What a look at Postgres found; ``offset``: seconds that this clock is ahead."""

    offset: float
    is_read_only: bool
    zone_data: str | None


async def _ask(connection: Conn) -> Answer:
    before = time.time()
    found = await server.watch(connection)
    return Answer(ahead(before, found["now"], time.time()), found["read_only"], found["zone_data"])
