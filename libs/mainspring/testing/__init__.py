"""For the tests of your own tasks; no service, broker or schema is needed.

    run = await run_inline(charge, charge.request(customer=…, cents=990), connection=connection)
    assert run.state == "succeeded"

- ``run_inline``: a job in place, with its retries; nothing waits.
- ``Recorder``: stands where a ``Client`` stands in your code, and keeps what it is asked to submit.
- ``TimeTravel``: jobs and schedules on a clock that you move.
- ``crash_at_each_await``: kills the handler at each of its awaits in turn, and shows which writes happened twice.

A handler that uses ``ctx.transaction()`` needs a connection to a database that holds its own tables.
"""

from mainspring.testing.crash_kit import Crash, CrashReport, crash_at_each_await
from mainspring.testing.inline import InlineAttempt, InlineRun, run_inline
from mainspring.testing.recorder import Recorder
from mainspring.testing.time_travel import TimeTravel, TravelledJob

__all__ = [
    "Crash",
    "CrashReport",
    "InlineAttempt",
    "InlineRun",
    "Recorder",
    "TimeTravel",
    "TravelledJob",
    "crash_at_each_await",
    "run_inline",
]
