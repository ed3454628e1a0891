"""Circuits over HTTP."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from mainspring.domain.circuit import LONGEST_HOLD, CircuitState, CircuitTerms
from mainspring_services.api.schemas.common import Note, Number

Seconds = Annotated[Number, Field(allow_inf_nan=False, ge=0.1)]
#: A person may keep one open for longer than it stays open by itself.
LONGEST_BY_HAND = 30 * 86400


class CircuitIn(BaseModel):
    """When a circuit opens, and for how long."""

    model_config = ConfigDict(extra="forbid")

    failures: int = Field(
        default=10, ge=1, le=10_000, strict=True, description="It opens when more attempts fail in a period,"
    )
    period_seconds: Seconds = Field(default=60, le=86400, description="of so many seconds,")
    share: Number = Field(
        default=0.5, gt=0, lt=1, allow_inf_nan=False, description="and more than this share of all attempts."
    )
    hold_seconds: Seconds = Field(
        default=30,
        le=LONGEST_HOLD.total_seconds(),
        description="After so long a job probes it; twice as long each time that it opens again.",
    )

    def terms(self) -> CircuitTerms:
        """As the domain has them. Raises InvalidInput."""
        return CircuitTerms(**self.model_dump())


class CircuitOpenIn(BaseModel):
    """To open a circuit by hand."""

    model_config = ConfigDict(extra="forbid")

    seconds: Seconds = Field(default=3600, le=LONGEST_BY_HAND, description="After so long a job probes it.")
    note: Note | None = None


class CircuitOut(BaseModel):
    """A circuit."""

    name: str
    state: CircuitState = Field(
        description="`closed`: its jobs run. `open`: none starts. `half_open`: `probes` of them at once."
    )
    tasks: list[str] = Field(description="That name it.")
    failures: int
    period_seconds: float
    share: float
    hold_seconds: float
    left: float = Field(description="What is left of the failures, now.")
    probes: int | None = Field(description="Jobs that may run at once, of one that isn't closed.")
    opened_at: datetime | None = Field(description="Since when it isn't closed.")
    probed_at: datetime | None = Field(description="From when on jobs probe it.")
    opened_by: str | None = Field(description="Who opened it by hand.")
    note: str | None
    last_error: str | None = Field(description="The last failure that it heard of.")


class Circuits(BaseModel):
    """Circuits by name."""

    items: list[CircuitOut]
    next: None = None
