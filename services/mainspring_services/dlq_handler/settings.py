"""The dlq-handler's knobs: ``MAINSPRING_DLQ_HANDLER_<NAME>``."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from mainspring.runtime.settings import Settings


class DlqHandlerSettings(Settings):
    """What a dlq-handler can be told."""

    model_config = SettingsConfigDict(env_prefix="MAINSPRING_DLQ_HANDLER_", extra="ignore", populate_by_name=True)

    #: Where alerts are sent: an HTTP POST of JSON. Empty: they are only logged.
    webhook_url: str = ""
    #: How long a webhook may take, in seconds.
    webhook_timeout: float = Field(default=5.0, gt=0)
    #: Messages in hand at most.
    prefetch: int = Field(default=50, ge=1, le=1000)
    #: Dead letters whose message was lost are alerted after so many seconds.
    unalerted_after: float = Field(default=5.0, gt=0)
