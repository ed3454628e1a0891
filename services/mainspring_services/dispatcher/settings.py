"""The dispatcher's knobs: ``MAINSPRING_DISPATCHER_<NAME>``."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from mainspring.runtime.settings import Settings


class DispatcherSettings(Settings):
    """What a dispatcher can be told."""

    model_config = SettingsConfigDict(env_prefix="MAINSPRING_DISPATCHER_", extra="ignore", populate_by_name=True)

    #: Messages of a queue in hand at most.
    prefetch: int = Field(default=16, ge=1, le=1000)
    #: How often to read queues, limits and workers, in seconds.
    watch_interval: float = Field(default=0.5, gt=0)
    #: Without an answer from Postgres for so long it takes nothing more, and another dispatcher can, in seconds.
    silence: float = Field(default=3.0, gt=0)
