"""Limits over HTTP."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from mainspring.domain.circuit import LIMIT_PREFIX
from mainspring.domain.errors import InvalidInput
from mainspring.domain.limits import LONGEST_PERIOD, MOST, MOST_NAMES, SHORTEST_PERIOD, Kind, Limit, Strategy
from mainspring_services.api.schemas.common import Note, Number

_PLACE = "customer or customer.id"


class LimitIn(BaseModel):
    """A limit on the jobs of its queues and of its tasks."""

    model_config = ConfigDict(extra="forbid")

    kind: Kind = Field(description="`concurrency`: jobs at once. `rate`: starts in a span of time.")
    most: int = Field(ge=1, le=MOST, strict=True, description="Jobs at once, or tokens in any span of the period.")
    queues: list[str] = Field(default=[], max_length=MOST_NAMES, description="It is on all jobs of these queues,")
    tasks: list[str] = Field(default=[], max_length=MOST_NAMES, description="and on all jobs of these tasks.")
    per: str | None = Field(
        default=None, description=f"A place in the payload, such as {_PLACE}: each value has a limit of its own."
    )
    period_seconds: Number | None = Field(
        default=None, ge=SHORTEST_PERIOD, le=LONGEST_PERIOD, allow_inf_nan=False, description="Of a rate."
    )
    burst: int | None = Field(
        default=None,
        ge=1,
        le=MOST,
        strict=True,
        description="Tokens of a rate that may be taken at once; without it, `most`. "
        "Above `most` it is a bucket that the rate fills: any span then has up to `burst` more.",
    )
    cost: str | None = Field(
        default=None,
        description="A place in the payload where the tokens are that a job takes, a whole number; else 1.",
    )
    strategy: Strategy = Field(
        default=Strategy.WAIT,
        description="What happens when a due job finds no slot of a concurrency. `wait`: it waits. `cancel_running`: "
        "older jobs of the key are cancelled, also while they run. `cancel_new`: it is cancelled itself.",
    )
    ordered: bool = Field(
        default=False,
        description="With a concurrency of 1: jobs of a key run one after another in the order in which they became "
        "due; one that retries comes before those behind it.",
    )
    note: Note | None = None

    def limit(self, name: str) -> Limit:
        """The limit of this name. Raises InvalidInput."""
        if name.startswith(LIMIT_PREFIX):
            raise InvalidInput("name", f"{LIMIT_PREFIX}… is the name of the limit that an open circuit makes")
        burst = self.most if self.burst is None and self.kind is Kind.RATE else self.burst
        fields = self.model_dump(exclude={"name", "queues", "tasks", "burst"})
        return Limit(name, queues=tuple(self.queues), tasks=tuple(self.tasks), burst=burst, **fields)


class LimitOut(BaseModel):
    """A limit."""

    name: str
    kind: Kind
    most: int
    queues: list[str]
    tasks: list[str]
    per: str | None
    period_seconds: float | None
    burst: int | None
    cost: str | None
    strategy: Strategy
    ordered: bool
    note: str | None


class KeyUse(BaseModel):
    """How much of a limit a key uses."""

    key: str = Field(description="A value at `per`; empty for a limit that counts all its jobs together.")
    held: int = Field(description="Jobs that hold a slot, of `concurrency`.")
    released: int = Field(description="Jobs on their way to the workers, which will want a slot or a token.")
    left: int = Field(description="What is left of it now.")


class LimitInUse(LimitOut):
    """A limit, and the keys that use it: those with the least left, up to 100."""

    keys: list[KeyUse]


class Limits(BaseModel):
    """Limits by name."""

    items: list[LimitOut]
    next: None = None
