"""Every instrument of Mainspring, named in one file. Labels are bounded: never an id, a key or an error text."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

REGISTRY = CollectorRegistry(auto_describe=True)
CONTENT_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
_SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def _counter(name: str, text: str, *labels: str) -> Counter:
    return Counter(f"mainspring_{name}", text, labels, registry=REGISTRY)


def _gauge(name: str, text: str, *labels: str) -> Gauge:
    return Gauge(f"mainspring_{name}", text, labels, registry=REGISTRY)


def _histogram(name: str, text: str, *labels: str, buckets: tuple[float, ...] = _SECONDS) -> Histogram:
    return Histogram(f"mainspring_{name}", text, labels, registry=REGISTRY, buckets=buckets)


# Every process
LOOP_PASSES = _counter("loop_passes_total", "Passes of a loop, by outcome.", "loop", "outcome")
LOOP_SECONDS = _histogram("loop_seconds", "Duration of one pass of a loop.", "loop")
CLOCK_OFFSET = _gauge("clock_offset_seconds", "This process's wall clock minus Postgres's clock.")
UP = _gauge("dependency_up", "1 while the dependency answers.", "dependency")
CONNECTIONS_GIVEN_UP = _counter("postgres_connections_given_up_total", "Times that only new connections answered.")
BATCH_SIZE = _histogram("batch_size", "Items that shared one statement.", "batcher", buckets=_SIZES)

# Front door
SUBMITTED = _counter("jobs_submitted_total", "Jobs accepted.", "queue")

# Scheduler
FIRED = _counter("fires_total", "Nominal times that became jobs.")
FIRES_SKIPPED = _counter("fires_skipped_total", "Nominal times recorded as skipped.", "reason")
FIRE_LATENESS = _histogram("fire_lateness_seconds", "From the instant a fire was planned for to its record.")
SCHEDULES_PAUSED = _counter("schedules_paused_total", "Schedules that paused themselves after failures in a row.")
SCHEDULES_BROKEN = _counter("schedules_broken_total", "Schedules that could not be evaluated and were set aside.")
RELEASED = _counter("jobs_released_total", "Jobs handed to the broker.", "queue")
OUTBOX_REPUBLISHED = _counter("outbox_republished_total", "Outbox rows published again after a crash or a timeout.")
OUTBOX_AGE = _gauge("outbox_oldest_age_seconds", "Age of the oldest batch that is committed and not yet published.")
RECLAIMED = _counter("jobs_reclaimed_total", "Leases that expired and were settled as worker_lost.")
RECONCILED = _counter("jobs_reconciled_total", "Jobs sent again because the broker lost their message.", "cause")
HORIZON = _gauge(
    "postgres_oldest_transaction_seconds", "Age of the oldest transaction that pins dead rows; the leader's."
)
AUDIT_FINDINGS = _gauge("audit_findings", "What must never be and is, by check; up to 20 each; the leader's.", "check")
RECOVERY_SECONDS = _histogram("broker_recovery_seconds", "From a noticed loss of queues to the last job's return.")
LEADERLESS = _counter("queues_leaderless_total", "Queues deleted because they had lost their leader.")
DAYS_DROPPED = _counter("days_dropped_total", "Partitions dropped because their day is over.", "table")
JOBS_FORGOTTEN = _counter("jobs_forgotten_total", "Ended jobs that went one by one, as their queue has it.")
LEADER = _gauge("leader", "1 while this process holds the leader lease.")

# Broker
PUBLISHED = _counter("messages_published_total", "Messages confirmed by the broker.", "exchange")
PUBLISH_RETURNED = _counter("publish_returned_total", "Messages that the broker returned as unroutable.", "exchange")
PUBLISH_TIMED_OUT = _counter("publish_timed_out_total", "Publishes without a confirm in time.", "exchange")
CONSUMERS_REPLACED = _counter("consumers_replaced_total", "Consumers that brought nothing of a queue with messages.")
REJECTED = _counter("messages_rejected_total", "Messages that could not be read.", "reason")

# Dispatcher
DISPATCHED = _counter("jobs_dispatched_total", "Jobs sent to a work queue.", "queue")
BLOCKED = _counter("jobs_blocked_total", "Jobs that met a full limit.", "queue")
RETURNED = _counter("jobs_returned_total", "Jobs sent back to wait in Postgres.", "reason")
STALE = _counter("tickets_stale_total", "Job references dropped because their ticket was old.", "where")

# Worker
CLAIMED = _counter("jobs_claimed_total", "Attempts started.", "queue")
ATTEMPTS = _counter("attempts_total", "Attempts ended.", "task", "outcome")
ATTEMPT_SECONDS = _histogram("attempt_seconds", "Duration of an attempt.", "task")
SLOTS = _gauge("worker_slots", "Slots of this worker.")
SLOTS_BUSY = _gauge("worker_slots_busy", "Slots that hold a job.")
MEMORY_SHORT = _gauge("worker_memory_short", "1 while nothing starts because too little memory is free.")
LEASES_GONE = _counter("leases_gone_total", "Leases that were found to belong to a later attempt.")
WRITES_REFUSED = _counter("fenced_writes_refused_total", "Settlements that changed nothing because the fence was old.")
CIRCUIT_CHANGES = _counter("circuit_changes_total", "Circuits that a worker saw open or close.", "circuit", "state")
RUNNERS_LOST = _counter("runners_lost_total", "Runner processes that ended by surprise or were killed.", "cause")
LOOP_STALLS = _counter("runner_loop_stalls_total", "Times that a handler blocked its runner's event loop.", "task")
HANDED_OVER = _counter("messages_handed_over_total", "Messages acknowledged under a committed lease.")

# dlq-handler
DEAD = _counter("dead_letters_total", "Dead letters recorded.", "reason")
ALERTS = _counter("alerts_total", "Alerts sent, by outcome.", "outcome")


def exposition() -> bytes:
    """All metrics of this process in the Prometheus text format."""
    return generate_latest(REGISTRY)
