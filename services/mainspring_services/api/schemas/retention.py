"""Retention over HTTP."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from mainspring.domain.errors import InvalidInput
from mainspring.domain.retention import LONGEST_DAYS, MOST_LAST, SHORTEST_DAYS, QueueRetention, Retention
from mainspring_services.api.schemas.common import Number

Days = Annotated[Number, Field(ge=SHORTEST_DAYS, le=LONGEST_DAYS, allow_inf_nan=False)]


class RetentionIn(BaseModel):
    """How long things are kept, in days; what is left out has its default."""

    model_config = ConfigDict(extra="forbid")

    succeeded_days: Days = Field(
        default=30, description="Jobs that have succeeded, with payload and result, from their end on."
    )
    cancelled_days: Days = Field(default=30, description="Cancelled jobs.")
    results_days: Days | None = Field(default=None, description="Results; null: as long as their jobs.")
    history_days: Days = Field(default=90, description="Attempts and events, of all jobs.")
    keys_days: Days = Field(
        default=30, description="Idempotency keys and completions, for so much longer than any job."
    )

    def retention(self) -> Retention:
        """As the domain has it. Raises InvalidInput."""
        return Retention(**self.model_dump())


class RetentionOut(BaseModel):
    """How long things are kept, in days."""

    succeeded_days: float
    cancelled_days: float
    results_days: float | None
    history_days: float
    keys_days: float


class QueueRetentionIn(BaseModel):
    """What a queue keeps otherwise; what is left out, or null, is kept as for all."""

    model_config = ConfigDict(extra="forbid")

    succeeded_days: Days | None = Field(default=None, description="Jobs that have succeeded.")
    cancelled_days: Days | None = Field(default=None, description="Cancelled jobs.")
    results_days: Days | None = Field(default=None, description="Results.")
    last: int | None = Field(
        default=None, ge=1, le=MOST_LAST, strict=True, description="No more than so many of its ended jobs."
    )

    def retention(self) -> QueueRetention:
        """As the domain has it. Raises InvalidInput."""
        try:
            return QueueRetention(**self.model_dump())
        except InvalidInput as error:
            raise InvalidInput(f"retention.{error.field}", error.message) from None
