"""Every error that Mainspring raises on purpose, as one tree.

MainspringError
├── InvalidInput          a caller's value is refused; names the field
├── Unauthenticated       no API key, or one that isn't valid
├── Forbidden             the caller's API key isn't good for this
├── NotFound              the named thing doesn't exist
├── Conflict              the thing exists, in a state that doesn't allow the request
│   ├── NotFinished       the job hasn't ended yet
│   └── JobFailed         the job is dead or cancelled
├── QueueFull             as many jobs wait in the queue as may; submit again later
├── StaleFence            a write carried an old fence or claim id, and changed nothing
├── UnreadableMessage     a broker message is not one of ours
├── Unavailable           a server can't be reached or refuses work for now; trying again is right
│   ├── DatabaseUnavailable
│   └── BrokerUnavailable
├── Misconfigured         a setting, a schema or a topology that no retry mends; the process ends
└── HandlerSignal         what a handler raises to say what it means
    ├── Permanent
    ├── RetryAfter
    └── Snooze
"""

from __future__ import annotations

from datetime import timedelta


class MainspringError(Exception):
    """The root: catch it to catch all of ours."""


class InvalidInput(MainspringError):
    """A caller's value is refused. ``field`` is its path, such as ``payload.cents``."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


class Unauthenticated(MainspringError):
    """Nobody knows who asks: no API key, or one that isn't valid."""


class Forbidden(MainspringError):
    """The caller's API key isn't good for this."""


class NotFound(MainspringError):
    """The named job, schedule, queue or dead letter doesn't exist."""


class Conflict(MainspringError):
    """The request doesn't fit the state that the thing is in."""


class NotFinished(Conflict):
    """A result is asked for that isn't there yet."""


class JobFailed(Conflict):
    """A result is asked for that will never be there: the job is dead or cancelled."""


class QueueFull(MainspringError):
    """As many jobs wait in the queue as may; nothing was stored. Submit it again a little later."""


class StaleFence(MainspringError):
    """A fenced write changed no row: the job belongs to a later attempt, or has ended."""


class UnreadableMessage(MainspringError):
    """A broker message that can't be decoded. ``reason`` is a short name, fit for a label."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason


class Unavailable(MainspringError):
    """A server doesn't answer or refuses for now. Trying again later is right."""


class DatabaseUnavailable(Unavailable):
    """Postgres can't be reached, is read-only, or closed the connection."""


class BrokerUnavailable(Unavailable):
    """RabbitMQ can't be reached, didn't confirm in time, or returned a message."""


class Misconfigured(MainspringError):
    """A setting, a schema version or a queue's arguments are wrong, and waiting won't mend it."""


class HandlerSignal(MainspringError):
    """Raised by a handler to say what should follow."""


class Permanent(HandlerSignal):
    """The job can never succeed: no retry, straight to the dead letters."""


class RetryAfter(HandlerSignal):
    """Try again, not sooner than ``delay`` (seconds or a timedelta). The attempt counts."""

    def __init__(self, delay: float | timedelta, message: str = "") -> None:
        super().__init__(message or f"retry after {delay}")
        self.delay = as_delay(delay)


class Snooze(HandlerSignal):
    """Not now: run again after ``delay`` (seconds or a timedelta). The attempt doesn't count."""

    def __init__(self, delay: float | timedelta, message: str = "") -> None:
        super().__init__(message or f"snoozed for {delay}")
        self.delay = as_delay(delay)


LONGEST_DELAY = timedelta(days=366)


def as_delay(delay: float | timedelta) -> timedelta:
    """A delay as a timedelta between 0 and 366 days; out of range or not a number is clamped.

    A handler's signal must never fail on its own argument, so nothing raises here.
    """
    number = delay.total_seconds() if isinstance(delay, timedelta) else delay
    try:
        seconds = float(number)
    except OverflowError:
        return LONGEST_DELAY if number > 0 else timedelta(0)
    except (TypeError, ValueError):
        return timedelta(0)
    if not seconds > 0:  # also NaN
        return timedelta(0)
    return timedelta(seconds=min(seconds, LONGEST_DELAY.total_seconds()))
