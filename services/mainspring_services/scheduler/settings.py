"""The scheduler's knobs: ``MAINSPRING_SCHEDULER_<NAME>``."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from mainspring.runtime.settings import Settings


class SchedulerSettings(Settings):
    """What a scheduler can be told."""

    model_config = SettingsConfigDict(env_prefix="MAINSPRING_SCHEDULER_", extra="ignore", populate_by_name=True)

    #: How often to look for due jobs when nothing wakes it, in seconds.
    release_interval: float = Field(default=1.0, gt=0)
    #: How often to look whether there is something for the loops that wait for rows (expired leases, schedules that are
    #: soon due, …), in seconds.
    agenda_interval: float = Field(default=1.0, gt=0)
    #: How often to ask whether the broker still remembers its queues, in seconds.
    probe_interval: float = Field(default=2.0, gt=0)
    #: How often the leader looks for what must never be, in seconds.
    audit_interval: float = Field(default=60.0, gt=0)
    #: How long a message may go unclaimed before it is sent again, in seconds; doubling after that.
    unclaimed_after: float = Field(default=60.0, gt=0)
    #: Jobs that one release takes at most.
    release_size: int = Field(default=1000, ge=1)
    #: A worker's heartbeat, in seconds: reclaim waits for one after Postgres's clock has jumped.
    beat: float = Field(default=5.0, gt=0)
