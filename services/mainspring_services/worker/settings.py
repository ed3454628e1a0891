"""The worker's knobs: ``MAINSPRING_WORKER_<NAME>``."""

from __future__ import annotations

import os

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from mainspring.domain.errors import InvalidInput, Misconfigured
from mainspring.domain.job import NAME
from mainspring.domain.labels import check_labels
from mainspring.domain.lease import LeaseTerms
from mainspring.runtime.settings import Settings
from mainspring.worker.start_tokens import MOST as MOST_SLOTS


class WorkerSettings(Settings):
    """What a worker can be told."""

    model_config = SettingsConfigDict(env_prefix="MAINSPRING_WORKER_", extra="ignore", populate_by_name=True)

    #: Modules with tasks, separated by commas; the command line's come first.
    modules: str = ""
    #: Queues to serve, separated by commas; empty: the queues of its tasks, and `default`.
    queues: str = ""
    #: What tasks may require of it: `gpu,region=eu`.
    labels: str = ""
    #: Jobs that run at once.
    slots: int = Field(default=10, ge=1, le=MOST_SLOTS)
    #: Of these, at most so many for a queue: `reports=2,mail=5`.
    queue_slots: str = ""
    #: Jobs that this worker starts in a second at most; 0: any number.
    starts_per_second: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    #: While less memory is free (in MiB, of the machine or of the control group; Linux only) nothing starts; 0: never.
    min_free_mib: int = Field(default=0, ge=0)
    #: Runner processes that share the slots.
    runners: int = Field(default_factory=lambda: os.cpu_count() or 1, ge=1, le=256)
    #: Messages of a queue in hand at most; 0: enough for twice the slots, a message holding up to 100 jobs.
    prefetch: int = Field(default=0, ge=0, le=1000)
    #: How long a lease lasts, in seconds, by Postgres's clock.
    lease: float = Field(default=15.0, gt=0)
    #: How often leases are extended, in seconds.
    beat: float = Field(default=5.0, gt=0)
    #: How long before its end a lease is given up, in seconds.
    margin: float = Field(default=3.0, gt=0)
    #: A job that runs longer rests on its lease alone; its message is acknowledged. In seconds.
    ack_handover: float = Field(default=30.0, gt=0)
    #: What running jobs get at a stop before they are handed back, in seconds.
    stop_grace: float = Field(default=10.0, ge=0)
    #: What a handler gets between being told to stop and the end of its process, in seconds.
    kill_grace: float = Field(default=2.0, gt=0)
    #: After so long without a turn of its event loop a runner is given nothing more until it turns again, in seconds.
    stall: float = Field(default=1.0, ge=0.75)
    #: After so many jobs a runner is replaced by a new one, and ends with its last handler; 0: never.
    recycle_jobs: int = Field(default=0, ge=0)
    #: From so much memory on (resident, in MiB; Linux only) likewise; 0: never.
    recycle_mib: int = Field(default=0, ge=0)
    #: How long jobs of a message wait here for a slot before they are published again, in seconds.
    hold: float = Field(default=1.0, gt=0)

    def messages_in_hand(self) -> int:
        """How many messages of a queue the broker may hand over at once."""
        return self.prefetch or max(4, 2 * self.slots // 50)

    def slots_of_queues(self) -> dict[str, int]:
        """``queue_slots`` by queue. Raises Misconfigured."""
        found = {}
        for part in names(self.queue_slots):
            queue, _, count = part.partition("=")
            if not NAME.fullmatch(queue) or not count.isdecimal() or not 1 <= int(count) <= MOST_SLOTS:
                raise Misconfigured(f"MAINSPRING_WORKER_QUEUE_SLOTS: {part!r} is not like reports=2")
            found[queue] = int(count)
        return found

    def label_set(self) -> tuple[str, ...]:
        """``labels``, in order. Raises Misconfigured."""
        try:
            return check_labels("MAINSPRING_WORKER_LABELS", names(self.labels))
        except InvalidInput as error:
            raise Misconfigured(str(error)) from None

    def terms(self) -> LeaseTerms:
        """The lease, the beat and the margin, checked against each other. Raises Misconfigured."""
        return LeaseTerms(self.lease, self.beat, self.margin)


def names(text: str) -> tuple[str, ...]:
    """The parts of a comma-separated setting."""
    return tuple(part.strip() for part in text.split(",") if part.strip())
