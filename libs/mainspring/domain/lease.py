"""How long a worker may believe in a lease.

Postgres's clock ends a lease; the worker's monotonic clock must end its handlers *before* that. So the
worker counts from the moment before it sent the claim or heartbeat, and stops a margin early: the trust
window. Clocks that tick at different speeds by less than the margin can't make two handlers of one job.
"""

from __future__ import annotations

from dataclasses import dataclass

from mainspring.domain.errors import Misconfigured


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """A fleet's lease in seconds: how long it lasts, how often it is extended, how early it is given up."""

    lease: float = 15.0
    beat: float = 5.0
    margin: float = 3.0

    def __post_init__(self) -> None:
        if not 0 < self.margin < self.lease or not 0 < self.beat < self.lease - self.margin:
            raise Misconfigured(
                f"a lease of {self.lease:g} s needs a beat shorter than lease - {self.margin:g} s, not {self.beat:g} s"
            )

    @property
    def trust(self) -> float:
        """Seconds from sending a claim or heartbeat during which its lease is surely held."""
        return self.lease - self.margin

    def trusted_until(self, sent_at: float) -> float:
        """The monotonic instant at which a lease asked for at ``sent_at`` must be given up."""
        return sent_at + self.trust
