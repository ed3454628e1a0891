"""The one shape of long-lived work: a named ``run_once`` and a shared skeleton that starts and stops it.

A loop holds no state: everything it knows is in Postgres or handed to it. One pass returns what it did;
the skeleton decides when the next one starts. A pass that raises is logged and tried again, with a delay
that doubles; this is one of the two places in Mainspring that catch every exception.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from mainspring.domain.errors import Misconfigured, Unavailable
from mainspring.domain.retry import reconnect_delay
from mainspring.telemetry import metrics
from mainspring.telemetry.logs import get_logger

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Pass:
    """What one pass did. ``again`` asks for the next one at once; ``wait`` for one within so many seconds."""

    done: int = 0
    again: bool = False
    wait: float | None = None


@dataclass(slots=True)
class Loop:
    """``run_once`` every ``interval`` seconds, sooner when ``wake`` is set or a pass asks for it."""

    name: str
    run_once: Callable[[], Awaitable[Pass]]
    interval: float
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    #: What a failed pass waits at most, in seconds: less where the work can't wait that long.
    longest_retry: float = 5.0
    last_pass_at: float = 0.0

    async def run(self) -> None:
        """Run until cancelled. Raises only Misconfigured, which no retry mends."""
        failures = 0
        while True:
            self.wake.clear()
            try:
                wait = await self._pass()
                failures = 0
            except Misconfigured:
                raise
            except Exception as error:  # noqa: BLE001  the loop is where a pass's failure ends
                failures += 1
                wait = reconnect_delay(failures, random.random(), self.longest_retry)  # noqa: S311  a delay, not a secret
                self._log_failure(error, wait)
                await asyncio.sleep(wait)
                continue
            await self._sleep(wait)

    async def _pass(self) -> float:
        started = time.monotonic()
        with metrics.LOOP_SECONDS.labels(self.name).time():
            result = await self.run_once()
        self.last_pass_at = started
        metrics.LOOP_PASSES.labels(self.name, "ok").inc()
        if result.again:
            return 0.0
        return self.interval if result.wait is None else min(result.wait, self.interval)

    async def _sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        try:
            async with asyncio.timeout(seconds):
                await self.wake.wait()
        except TimeoutError:
            return

    def _log_failure(self, error: Exception, wait: float) -> None:
        metrics.LOOP_PASSES.labels(self.name, "failed").inc()
        if isinstance(error, Unavailable):
            log.warning("pass failed", loop=self.name, error=str(error), retry_in=round(wait, 2))
        else:
            log.error("pass failed", loop=self.name, retry_in=round(wait, 2), exc_info=error)
