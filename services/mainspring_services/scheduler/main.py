"""Composition of the scheduler."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import cast

from mainspring.broker.publisher import Publisher
from mainspring.runtime.broker_watch import WATCH_SECONDS as BROKER_SECONDS
from mainspring.runtime.broker_watch import BrokerWatch
from mainspring.runtime.leader import RENEW_SECONDS, Leadership
from mainspring.runtime.loop import Loop
from mainspring.runtime.patience import if_available
from mainspring.runtime.postgres_watch import WATCH_SECONDS, PostgresWatch
from mainspring.runtime.service import Service, run
from mainspring.runtime.settings import read
from mainspring.store.migrate import wait_for_schema
from mainspring.store.pool import Database
from mainspring.store.release import Bounds
from mainspring.store.wakeups import DUE_CHANNEL, LOAN_CHANNEL, listen
from mainspring_services.scheduler.agenda import IDLE_SECONDS, Agenda
from mainspring_services.scheduler.audit import Audit, Mend
from mainspring_services.scheduler.audit_fires import AuditFires
from mainspring_services.scheduler.backfill_due import BackfillDue
from mainspring_services.scheduler.bulk_due import BulkDue
from mainspring_services.scheduler.declare_queues import DeclareQueues
from mainspring_services.scheduler.fire_due import FireDue
from mainspring_services.scheduler.lead import Lead
from mainspring_services.scheduler.let_go import LetGo
from mainspring_services.scheduler.queue_topology import QueueTopology
from mainspring_services.scheduler.reclaim_expired import ReclaimExpired
from mainspring_services.scheduler.reconcile import ReconcileEpoch, ReconcileLeaders, ReconcileMessages
from mainspring_services.scheduler.release_due import ReleaseDue
from mainspring_services.scheduler.republish_outbox import RepublishOutbox
from mainspring_services.scheduler.retain import Retain
from mainspring_services.scheduler.settings import SchedulerSettings
from mainspring_services.scheduler.zone_data import FollowZoneData

NAME = "scheduler"
#: How often the release scans from the start: finds jobs of transactions that committed late.
SWEEP_SECONDS = 5.0
#: How often the leader lets go of what is over.
RETAIN_SECONDS = 300.0
#: The longest between two looks for unclaimed messages, or a quarter of the time after which they are sent again.
LONGEST_UNCLAIMED_LOOK = 5.0
#: How often some queues are asked for their leader: a question costs the broker a channel.
LEADERS_SECONDS = 5.0


async def serve(service: Service) -> None:
    """Run all loops until the stop."""
    settings = cast(SchedulerSettings, service.settings)
    await wait_for_schema(settings.direct_url, NAME)
    publisher = Publisher(settings.amqp_url, NAME)
    topology = QueueTopology(settings.amqp_url)
    async with Database(settings.database_url, NAME, most=settings.database_connections) as database:
        leadership = Leadership(database, "leader")
        bounds = Bounds()
        releases = ReleaseDue(database, publisher, topology, bounds, settings.release_size)
        service.start_loops(loops(settings, database, publisher, topology, leadership, releases, bounds))
        broker = BrokerWatch(settings.amqp_url, NAME, service.health.publishing)
        service.start_loops(
            [
                Loop("postgres", PostgresWatch(database, service.health).run_once, WATCH_SECONDS),
                Loop("rabbitmq", broker.run_once, BROKER_SECONDS),
            ]
        )
        heard: dict[str, Callable[[str], None]] = {
            DUE_CHANNEL: releases.wake_up,
            LOAN_CHANNEL: releases.lending.hear,
            releases.lending.channel: releases.hear_released,
        }
        service.guard("listen", listen(settings.direct_url, NAME, heard))
        await service.wait_for_stop()
        await if_available(releases.lending.end)
        await service.stop_tasks()
        await if_available(releases.forget_published)
        await if_available(leadership.give_up)
        await publisher.close()
        await topology.close()
        await broker.close()


def loops(
    settings: SchedulerSettings,
    database: Database,
    publisher: Publisher,
    topology: QueueTopology,
    leadership: Leadership,
    releases: ReleaseDue,
    bounds: Bounds,
) -> list[Loop]:
    """All of the scheduler's own loops."""
    fires = FireDue(database, releases)
    republish = RepublishOutbox(database, releases, topology)
    reclaim = ReclaimExpired(database, publisher, settings.beat)
    epoch = ReconcileEpoch(database, topology, bounds)
    leaders = ReconcileLeaders(database, topology, leadership)
    lead = Lead(leadership)
    messages = ReconcileMessages(database, publisher, timedelta(seconds=settings.unclaimed_after))

    async def release_from_the_start() -> None:
        bounds.forget()
        releases.wake_up()

    mends: dict[str, Mend] = {
        "lease_overdue": reclaim.run_once,
        "due_and_not_released": release_from_the_start,
        "outbox_overdue": republish.run_once,
        "schedule_overdue": fires.run_once,
        "partition_of_tomorrow_missing": lead.run_once,
        **dict.fromkeys(("unclaimed_and_not_sent_again", "retry_overdue", "expiry_overdue"), messages.run_once),
    }

    waiting = [
        Loop("fire_due", fires.run_once, IDLE_SECONDS),
        Loop("reclaim_expired", reclaim.run_once, IDLE_SECONDS),
        Loop("republish_outbox", republish.run_once, IDLE_SECONDS),
        Loop("reconcile_messages", messages.run_once, min(settings.unclaimed_after / 4, LONGEST_UNCLAIMED_LOOK)),
        Loop("backfill_due", BackfillDue(database, releases.wake_up).run_once, IDLE_SECONDS),
        Loop("bulk_due", BulkDue(database, releases.wake_up).run_once, IDLE_SECONDS),
        Loop("let_go", LetGo(database, releases.wake_up).run_once, IDLE_SECONDS),
        Loop("declare_queues", DeclareQueues(database, topology).run_once, IDLE_SECONDS),
        Loop("zone_data", FollowZoneData(database, leadership).run_once, IDLE_SECONDS),
    ]
    ahead = timedelta(seconds=2 * settings.agenda_interval)
    agenda = Agenda(database, topology, {loop.name: loop for loop in waiting}, ahead)
    return [
        Loop("release_due", releases.run_once, settings.release_interval, releases.wake),
        Loop("agenda", agenda.run_once, settings.agenda_interval),
        *waiting,
        Loop("sweep", releases.sweep, SWEEP_SECONDS),
        Loop("reconcile_epoch", epoch.run_once, settings.probe_interval),
        Loop("reconcile_leaders", leaders.run_once, LEADERS_SECONDS),
        Loop("leadership", leadership.renew, RENEW_SECONDS),
        Loop("lead", lead.run_once, 30.0),
        Loop("retain", Retain(database, leadership).run_once, RETAIN_SECONDS),
        Loop("audit", Audit(database, leadership, mends).run_once, settings.audit_interval),
        Loop("audit_fires", AuditFires(database, leadership).run_once, settings.audit_interval),
    ]


def main() -> int:
    """Run the service and return its exit code."""
    return run(NAME, lambda: read(SchedulerSettings), serve)
