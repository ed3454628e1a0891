"""Composition of the worker: the supervisor process."""

from __future__ import annotations

import argparse
import uuid
from collections.abc import Callable
from importlib.metadata import version
from typing import cast

from mainspring.broker import topology
from mainspring.broker.consumer import Consumer
from mainspring.broker.publisher import Publisher
from mainspring.domain.errors import Misconfigured
from mainspring.runtime.broker_watch import WATCH_SECONDS as BROKER_SECONDS
from mainspring.runtime.broker_watch import BrokerWatch
from mainspring.runtime.loop import Loop
from mainspring.runtime.patience import if_available, when_available
from mainspring.runtime.postgres_watch import WATCH_SECONDS, PostgresWatch
from mainspring.runtime.service import Service, run
from mainspring.runtime.settings import read
from mainspring.store import fleet, queues
from mainspring.store.claims import Claimant
from mainspring.store.migrate import wait_for_schema
from mainspring.store.pool import Database
from mainspring.store.wakeups import CANCEL_CHANNEL, DUE_CHANNEL, listen
from mainspring.telemetry.logs import get_logger
from mainspring.worker.circuits import TELL_SECONDS
from mainspring.worker.deadlines import Deadlines
from mainspring.worker.gates import Gates
from mainspring.worker.intake import Intake
from mainspring.worker.lease_keeper import LeaseKeeper
from mainspring.worker.reporter import Reporter
from mainspring.worker.runner_process import RunnerSpec
from mainspring.worker.runner_watch import RunnerWatch
from mainspring.worker.slots import Slots
from mainspring_services.worker.claim_jobs import ClaimJobs
from mainspring_services.worker.settings import WorkerSettings, names
from mainspring_services.worker.show_worker import ShowWorker, offered, queues_of

log = get_logger(__name__)
NAME = "worker"
#: How often those look that watch over attempts, while there are none.
IDLE_SECONDS = 2.0
SHOW_SECONDS = 2.0


async def serve(service: Service) -> None:
    """Run jobs until the stop; then hand back what doesn't end in time."""
    settings = cast(WorkerSettings, service.settings)
    await wait_for_schema(settings.direct_url, NAME)
    publisher = Publisher(settings.amqp_url, NAME)
    async with Database(settings.database_url, NAME, most=settings.database_connections) as database:
        reporter = Reporter(database, publisher)
        slots = _slots(settings, reporter)
        service.guard("runners", slots.pool.keep())
        await slots.pool.is_ready.wait()
        reporter.circuits.learn(slots.pool.catalogue)
        show = _show(settings, database, slots)
        await when_available(lambda: _introduce(database, slots, show))
        claimant = Claimant(show.worker_id, show.tasks)
        gates = Gates(settings.slots_of_queues(), settings.starts_per_second, settings.min_free_mib)
        intake = Intake(database, publisher, slots, claimant, settings.terms(), gates)
        broker = BrokerWatch(settings.amqp_url, NAME, service.health.publishing)
        consumer = _start(service, settings, database, slots, intake, show)
        service.start_loops([Loop("rabbitmq", broker.run_once, BROKER_SECONDS)])
        if reporter.circuits:
            service.start_loops([Loop("circuits", reporter.circuits.run_once, TELL_SECONDS)])
        await service.wait_for_stop()
        await consumer.stop_consuming()
        await intake.stop()
        await slots.stop_all(settings.stop_grace)
        await service.stop_tasks()
        await if_available(
            lambda: database.run(lambda connection: fleet.forget_worker(connection, show.worker_id)),
        )
        await publisher.close()
        await broker.close()


async def _introduce(database: Database, slots: Slots, show: ShowWorker) -> None:
    await database.run_in_transaction(
        lambda connection: fleet.upsert_tasks(connection, slots.pool.catalogue, show.version)
    )
    # Not those of tasks that it leaves to others: nobody may be there to serve them.
    known = {*show.queues, *(entry["queue"] for entry in offered(slots.pool.catalogue, show.labels))}
    await database.run(lambda connection: queues.make_queues(connection, sorted(known)))
    # Seen by the others first: then nobody finds that no worker knows them any more.
    await show.run_once()
    while await database.run(lambda connection: fleet.call_waiting(connection, show.tasks)):
        await database.run(lambda connection: fleet.notify(connection, DUE_CHANNEL))


def _slots(settings: WorkerSettings, reporter: Reporter) -> Slots:
    spec = RunnerSpec(
        names(settings.modules),
        settings.slots,
        settings.database_url,
        settings.stall,
        settings.recycle_jobs,
        settings.recycle_mib,
    )
    return Slots(spec, runners=settings.runners, slots=settings.slots, reporter=reporter, grace=settings.kill_grace)


def _show(settings: WorkerSettings, database: Database, slots: Slots) -> ShowWorker:
    labels = settings.label_set()
    tasks = offered(slots.pool.catalogue, labels)
    if left := sorted({entry["name"] for entry in slots.pool.catalogue} - {entry["name"] for entry in tasks}):
        log.info("tasks that require other labels are left to others", tasks=left, labels=labels)
    return ShowWorker(
        database,
        slots,
        uuid.uuid4(),
        version("mainspring"),
        queues_of(names(settings.queues), tasks),
        tuple(sorted(entry["name"] for entry in tasks)),
        labels,
    )


def _start(
    service: Service, settings: WorkerSettings, database: Database, slots: Slots, intake: Intake, show: ShowWorker
) -> Consumer:
    consumer = Consumer(
        settings.amqp_url,
        NAME,
        prefetch=settings.messages_in_hand(),
        receive=intake.receive,
        on_state=service.health.broker,
    )
    consumer.consume(topology.work_queue(queue) for queue in show.queues)
    keeper = LeaseKeeper(database, slots, settings.terms(), settings.ack_handover)
    # A beat that failed is tried again within a beat: its leases go on running out.
    beats = Loop("lease_keeper", keeper.run_once, settings.beat, longest_retry=min(settings.beat, 5.0))
    service.health.broker("not connected yet")
    service.guard("consumer", consumer.run())
    service.guard("claim_jobs", ClaimJobs(intake, slots, consumer, settings.hold).run())
    watching = [
        Loop("deadlines", Deadlines(slots).run_once, IDLE_SECONDS),
        Loop("runner_watch", RunnerWatch(slots).run_once, IDLE_SECONDS),
    ]
    slots.wake_when_busy += [loop.wake for loop in watching]
    service.start_loops(
        [
            beats,
            *watching,
            Loop("show_worker", show.run_once, SHOW_SECONDS),
            Loop("postgres", PostgresWatch(database, service.health).run_once, WATCH_SECONDS),
        ]
    )
    heard = {CANCEL_CHANNEL: _beat_when_named(beats, show.worker_id)}
    service.guard("listen", listen(settings.direct_url, NAME, heard))
    return consumer


def _beat_when_named(beats: Loop, worker_id: uuid.UUID) -> Callable[[str], None]:
    """A job of this worker is to stop: the beat that brings the request begins now."""

    def wake(named: str) -> None:
        if named == str(worker_id):
            beats.wake.set()

    return wake


def settings_from(arguments: list[str] | None) -> WorkerSettings:
    """The settings, with the command line's modules first. Raises Misconfigured."""
    parser = argparse.ArgumentParser(prog="mainspring worker", description="Run the tasks of these modules.")
    parser.add_argument("modules", nargs="*", metavar="MODULE")
    given = parser.parse_args(arguments)
    settings = read(WorkerSettings)
    settings.modules = ",".join([*given.modules, *names(settings.modules)])
    if not settings.modules:
        raise Misconfigured("name at least one module with tasks, or set MAINSPRING_WORKER_MODULES")
    settings.terms()
    settings.slots_of_queues()
    settings.label_set()
    return settings


def main(arguments: list[str] | None = None) -> int:
    """Run the service and return its exit code."""
    return run(NAME, lambda: settings_from(arguments), serve)
