"""Jobs and schedules on a clock that the test moves: what is due runs, in order, and a night takes a millisecond."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from mainspring.domain.definition import ScheduleDefinition
from mainspring.domain.errors import InvalidInput
from mainspring.domain.job import JobRequest, check_instant
from mainspring.tasks import Task, TaskRegistry
from mainspring.testing.inline import InlineJob

_LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(slots=True)
class TravelledJob(InlineJob):
    """A job of a ``TimeTravel``, with the instants of its attempts."""

    due_at: datetime = _LONG_AGO
    started_at: list[datetime] = field(default_factory=list)


class TimeTravel:
    """A clock at ``start``, and what is due by it. Handlers that read the clock by themselves see the real time.

    ``connection``: for ``ctx.transaction()``, as in ``run_inline``.
    """

    def __init__(self, tasks: Iterable[Task[Any, Any]], start: datetime, *, connection: Any = None) -> None:
        check_instant("start", start)
        self.now = start
        #: Every job, in the order in which they were made.
        self.jobs: list[TravelledJob] = []
        #: Nominal times that were skipped, with the names of their schedules.
        self.skipped: list[tuple[str, datetime]] = []
        self._tasks = TaskRegistry(tasks)
        self._connection = connection
        self._order = itertools.count()
        self._due: list[tuple[datetime, int, TravelledJob | ScheduleDefinition]] = []

    def submit(self, request: JobRequest, *, delay: timedelta = timedelta(0)) -> TravelledJob:
        """Submit a job; it runs when the clock reaches its time. Raises InvalidInput for an unknown task."""
        one = self._tasks.get(request.task)
        if one is None:
            raise InvalidInput("task", f"{request.task} is none of the tasks here")
        job = TravelledJob(one, request, due_at=max(request.run_at or self.now + (request.delay or delay), self.now))
        self.jobs.append(job)
        self._put(job.due_at, job)
        return job

    def schedule(
        self,
        name: str,
        request: JobRequest,
        *,
        cron: str | None = None,
        every: timedelta | None = None,
        timezone: str = "UTC",
    ) -> None:
        """Make a job of ``request`` at each nominal time after now. Raises InvalidInput.

        As by default: a nominal time is skipped while an earlier job of the schedule waits for a retry.
        """
        seconds = every.total_seconds() if every else None
        one = ScheduleDefinition(
            name,
            request.task,
            request.payload,
            cron=cron,
            every_seconds=seconds,
            timezone=timezone,
            start_at=self.now,
            queue=request.queue,
            priority=request.priority,
            tags=request.tags,
        )
        self._put_next(one, self.now)

    async def travel(self, until: datetime | timedelta) -> list[TravelledJob]:
        """Move the clock, and run all that is due on the way; returns the jobs that ended.

        Raises InvalidInput for an instant that has passed.
        """
        goal = self.now + until if isinstance(until, timedelta) else until
        if goal < self.now:
            raise InvalidInput("until", f"{goal.isoformat()} is before {self.now.isoformat()}")
        ended = []
        while self._due and self._due[0][0] <= goal:
            self.now, _, one = heapq.heappop(self._due)
            if isinstance(one, ScheduleDefinition):
                self._fire(one)
            elif await self._run(one):
                ended.append(one)
        self.now = goal
        return ended

    async def _run(self, job: TravelledJob) -> bool:
        job.started_at.append(self.now)
        delay = await job.attempt(self._connection)
        if not job.is_over:
            job.due_at = self.now + delay
            self._put(job.due_at, job)
        return job.is_over

    def _fire(self, one: ScheduleDefinition) -> None:
        self._put_next(one, self.now)
        if any(job.request.schedule == one.name and not job.is_over for job in self.jobs):
            self.skipped.append((one.name, self.now))
            return
        # As a submit has it: what the schedule doesn't say is the task's.
        known = self._tasks.get(one.task)
        options = {"retry": known.retry, "timeout": known.timeout} if known else {}
        self.submit(one.request(self.now).with_options(**options))

    def _put_next(self, one: ScheduleDefinition, after: datetime) -> None:
        nominal_at = one.trigger(self.now).next_after(after)
        if nominal_at is not None:
            self._put(nominal_at, one)

    def _put(self, due_at: datetime, one: TravelledJob | ScheduleDefinition) -> None:
        heapq.heappush(self._due, (due_at, next(self._order), one))
