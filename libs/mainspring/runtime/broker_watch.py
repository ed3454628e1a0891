"""Whether RabbitMQ takes messages: said by /readyz, with the reason.

A broker that runs low on memory or disk stops reading from connections that publish, and goes on serving those that
consume. So this loop publishes, on a connection of its own, a message that reaches nobody.
"""

from __future__ import annotations

from collections.abc import Callable

from mainspring.broker.connection import Link, connect
from mainspring.broker.probe import Nowhere
from mainspring.domain.errors import BrokerUnavailable
from mainspring.runtime.loop import Pass

WATCH_SECONDS = 5.0
#: Each look asks for an answer: the connection needs no sign of life besides, and a sign costs both sides a wake-up.
HEARTBEAT_SECONDS = 60
ALARM = "RabbitMQ takes no messages: an alarm of its memory or disk"


class BrokerWatch:
    """A loop of every service that publishes; ``report(problem)`` hears of each look, None when all is well."""

    def __init__(self, urls: str, name: str, report: Callable[[str | None], None]) -> None:
        self._urls = urls
        self._name = f"{name}.watch"
        self._report = report
        self._link: Link | None = None
        self._nowhere: Nowhere | None = None

    async def run_once(self) -> Pass:
        """Look once."""
        self._report(await self._problem())
        return Pass()

    async def close(self) -> None:
        """Close the connection."""
        link, self._link, self._nowhere = self._link, None, None
        if link is not None:
            await link.close()

    async def _problem(self) -> str | None:
        try:
            if self._link is None or self._nowhere is None or self._link.is_closed:
                self._link = await connect(self._urls, self._name, HEARTBEAT_SECONDS)
                self._nowhere = Nowhere(self._link)
            if await self._link.is_blocked():
                # It is told when the alarm is over; another message would only wait there.
                return ALARM
            await self._nowhere.publish()
        except BrokerUnavailable as error:
            if self._link is not None and await self._link.is_blocked():
                return ALARM
            await self.close()
            return str(error)
        return None
