"""Mainspring: background jobs and cron schedules on a fleet, none lost, each effect applied once.

This is what users' code imports. It imports no driver; the client is in ``mainspring.client``.
"""

from mainspring.context import Connection, JobContext, LastRun
from mainspring.domain.errors import (
    Conflict,
    InvalidInput,
    JobFailed,
    MainspringError,
    NotFinished,
    NotFound,
    Permanent,
    QueueFull,
    RetryAfter,
    Snooze,
    Unavailable,
)
from mainspring.domain.job import JobRequest
from mainspring.domain.retry import RetryPolicy
from mainspring.tasks import Task, TaskRegistry, task

__all__ = [
    "Conflict",
    "Connection",
    "InvalidInput",
    "JobContext",
    "JobFailed",
    "JobRequest",
    "LastRun",
    "MainspringError",
    "NotFinished",
    "NotFound",
    "Permanent",
    "QueueFull",
    "RetryAfter",
    "RetryPolicy",
    "Snooze",
    "Task",
    "TaskRegistry",
    "Unavailable",
    "task",
]
