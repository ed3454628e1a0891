"""Composition of the dispatcher."""

from __future__ import annotations

from typing import cast

from mainspring.broker.consumer import Consumer
from mainspring.broker.publisher import Publisher
from mainspring.runtime.broker_watch import WATCH_SECONDS as BROKER_SECONDS
from mainspring.runtime.broker_watch import BrokerWatch
from mainspring.runtime.loop import Loop
from mainspring.runtime.patience import when_available
from mainspring.runtime.postgres_watch import WATCH_SECONDS, PostgresWatch
from mainspring.runtime.service import Service, run
from mainspring.runtime.settings import read
from mainspring.store.migrate import wait_for_schema
from mainspring.store.pool import Database
from mainspring_services.dispatcher.dispatch import Dispatch
from mainspring_services.dispatcher.fleet_view import FleetView
from mainspring_services.dispatcher.settings import DispatcherSettings
from mainspring_services.dispatcher.watch_fleet import ConsumeOrNot, WatchFleet

NAME = "dispatcher"
#: Longer than elsewhere: of several dispatchers only one is sent a queue's messages, and the others beginning anew now
#: and then is harmless.
SILENT_SECONDS = 30.0
#: How often to look whether Postgres has been silent for too long.
CONSUME_SECONDS = 0.5


async def serve(service: Service) -> None:
    """Consume the due queues until the stop."""
    settings = cast(DispatcherSettings, service.settings)
    await wait_for_schema(settings.direct_url, NAME)
    publisher = Publisher(settings.amqp_url, NAME)
    view = FleetView()
    async with Database(settings.database_url, NAME, most=settings.database_connections) as database:
        dispatch = Dispatch(settings.amqp_url, database, publisher, view)
        consumer = Consumer(
            settings.amqp_url,
            NAME,
            prefetch=settings.prefetch,
            receive=dispatch.receive,
            on_state=service.health.broker,
            silent_after=SILENT_SECONDS,
        )
        consume = Loop(
            "consume", ConsumeOrNot(consumer, view, service.health, settings.silence).run_once, CONSUME_SECONDS
        )
        watch = WatchFleet(database, view, consume.wake.set)
        broker = BrokerWatch(settings.amqp_url, NAME, service.health.publishing)
        await when_available(watch.run_once)
        service.health.broker("not connected yet")
        service.guard("consumer", consumer.run())
        service.start_loops(
            [
                Loop("watch_fleet", watch.run_once, settings.watch_interval),
                consume,
                Loop("postgres", PostgresWatch(database, service.health).run_once, WATCH_SECONDS),
                Loop("rabbitmq", broker.run_once, BROKER_SECONDS),
            ]
        )
        await service.wait_for_stop()
        await consumer.stop_consuming()
        await dispatch.finish()
        await service.stop_tasks()
        await publisher.close()
        await broker.close()


def main() -> int:
    """Run the service and return its exit code."""
    return run(NAME, lambda: read(DispatcherSettings), serve)
