"""Delays in the broker, exact to a tick, with nothing waiting behind anything.

RabbitMQ expires messages only at a queue's head, so one queue with mixed TTLs holds short waits behind
long ones. The ladder writes a delay in binary: level k is a queue whose messages all wait 2^k ticks.
A message's routing key spells the delay's bits from the highest level down, then the queue's name:

    0.0.0.0.0.0.0.0.0.0.1.0.1.0.billing        10 ticks: wait 8, then 2, then due

At each level's topic exchange a 1 routes into that level's waiting queue, which dead-letters to the next
lower exchange with the key unchanged; a 0 routes there at once. Below level 0 lies the due exchange, where
the key's tail names the queue. A message without a delay is published there with a key of zeros.
The technique is NServiceBus's (its documentation, "RabbitMQ delayed delivery"); Celery 5.5 uses it too.
"""

from __future__ import annotations

import math
from datetime import timedelta

LEVELS = 14
TICK = timedelta(milliseconds=100)
MOST_TICKS: int = 2**LEVELS - 1
LONGEST = TICK * MOST_TICKS


def ticks_for(delay: timedelta) -> int:
    """The delay in ticks, rounded up; at least 0, at most what the ladder holds."""
    return min(max(math.ceil(delay / TICK), 0), MOST_TICKS)


def routing_key(ticks: int, queue: str) -> str:
    """The key that carries a message down the ladder to ``queue``."""
    return f"{'.'.join(format(ticks, f'0{LEVELS}b'))}.{queue}"


def entry_level(ticks: int) -> int | None:
    """The highest level at which the message must wait; None when it needn't."""
    return ticks.bit_length() - 1 if ticks else None


def wait_pattern(level: int) -> str:
    """Matches the keys that wait at ``level``."""
    return "*." * (LEVELS - 1 - level) + "1.#"


def pass_pattern(level: int) -> str:
    """Matches the keys that skip ``level``."""
    return "*." * (LEVELS - 1 - level) + "0.#"


def arrival_pattern(queue: str) -> str:
    """Matches the keys whose tail is exactly ``queue``: each name has its own number of words."""
    return "*." * LEVELS + queue
