"""The forecast over HTTP."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from mainspring.domain.spread import MOST_PROPOSED
from mainspring.runtime import forecast
from mainspring_services.api.schemas.common import NameText, Number


class Bucket(BaseModel):
    """One bucket of the window."""

    at: datetime
    fires: int = Field(description="Jobs that schedules make in it.")
    slots_needed: float = Field(description="How many jobs run at once in it, on average.")


class Share(BaseModel):
    """A schedule's part in a peak."""

    name: str
    share: float = Field(description="Of what the peak needs, 0 to 1.")


class Peak(Bucket):
    """A bucket that needs more than those around it."""

    schedules: list[Share] = Field(description="The 10 with the largest parts.")


class Forecast(BaseModel):
    """What the schedules will ask of the fleet."""

    start: datetime
    end: datetime
    bucket_seconds: int
    slots: int = Field(description="Of the workers that live.")
    schedules: int = Field(description="How many are in it: not those that are paused, broken or over.")
    unknown_durations: int = Field(description="Schedules of which no run is known; their jobs count as 1 second.")
    incomplete: bool = Field(description="There are more schedules or fires than one forecast looks at.")
    buckets: list[Bucket]
    peaks: list[Peak] = Field(description="The 10 that need most, the highest first.")


class Move(BaseModel):
    """A schedule and the jitter proposed for it."""

    name: str
    jitter_seconds: float = Field(description="Proposed.")
    present_jitter_seconds: float


class Suggestion(BaseModel):
    """Jitters that lower the peaks."""

    start: datetime
    end: datetime
    bucket_seconds: int
    slots: int
    before: Bucket = Field(description="The highest bucket of the window.")
    after: Bucket = Field(description="The highest one with the proposal.")
    schedules: list[Move] = Field(description="At most 1000; none when nothing makes the load flatter.")
    left_out: int = Field(description="Schedules in the same peaks beyond those: apply, and ask again.")
    incomplete: bool


class JitterIn(BaseModel):
    """A schedule and its new jitter."""

    model_config = ConfigDict(extra="forbid")

    name: NameText
    jitter_seconds: Number = Field(ge=0, le=86_400, allow_inf_nan=False)


class JittersIn(BaseModel):
    """The schedules whose jitter is to be another."""

    model_config = ConfigDict(extra="forbid")

    schedules: list[JitterIn] = Field(min_length=1, max_length=MOST_PROPOSED)

    def jitters(self) -> dict[str, timedelta]:
        """By name; of one that is named twice, the last."""
        return {one.name: timedelta(seconds=one.jitter_seconds) for one in self.schedules}


class Changed(BaseModel):
    """A schedule whose jitter has become another."""

    name: str
    jitter_seconds: float
    previous_jitter_seconds: float
    next_nominal_at: datetime | None


class Applied(BaseModel):
    """What an apply has changed; a schedule that had the jitter already isn't named."""

    changed: list[Changed]


def forecast_out(one: forecast.Forecast) -> dict[str, Any]:
    """A forecast as a Forecast."""
    peaks = [{**peak._asdict(), "schedules": [share._asdict() for share in peak.schedules]} for peak in one.peaks]
    return _window(one) | {
        "schedules": one.load.schedules,
        "unknown_durations": one.load.unknown_durations,
        "buckets": [bucket._asdict() for bucket in one.buckets],
        "peaks": peaks,
    }


def suggestion_out(one: forecast.Suggestion) -> dict[str, Any]:
    """A suggestion as a Suggestion."""
    moves = [
        {
            "name": move.name,
            "jitter_seconds": move.proposed.total_seconds(),
            "present_jitter_seconds": move.jitter.total_seconds(),
        }
        for move in one.spread.moves
    ]
    return _window(one.forecast) | {
        "before": one.spread.before._asdict(),
        "after": one.spread.after._asdict(),
        "schedules": moves,
        "left_out": one.left_out,
    }


def changed_out(one: forecast.Change) -> dict[str, Any]:
    """A change as a Changed."""
    return {
        "name": one.name,
        "jitter_seconds": one.schedule.row["jitter_seconds"],
        "previous_jitter_seconds": one.before.total_seconds(),
        "next_nominal_at": one.schedule.next_nominal_at,
    }


def _window(one: forecast.Forecast) -> dict[str, Any]:
    window = one.load.window
    return {
        "start": window.start,
        "end": window.end,
        "bucket_seconds": int(window.step.total_seconds()),
        "slots": one.slots,
        "incomplete": one.is_incomplete,
    }
