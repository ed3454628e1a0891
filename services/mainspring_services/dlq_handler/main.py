"""Composition of the dlq-handler."""

from __future__ import annotations

from datetime import timedelta
from typing import cast

from mainspring.broker import topology
from mainspring.broker.consumer import Consumer
from mainspring.runtime.loop import Loop
from mainspring.runtime.postgres_watch import WATCH_SECONDS, PostgresWatch
from mainspring.runtime.service import Service, run
from mainspring.runtime.settings import read
from mainspring.store.migrate import wait_for_schema
from mainspring.store.pool import Database
from mainspring_services.dlq_handler.alert import Alert
from mainspring_services.dlq_handler.record_dead import RecordDead
from mainspring_services.dlq_handler.settings import DlqHandlerSettings
from mainspring_services.dlq_handler.webhook import Webhook

NAME = "dlq-handler"


async def serve(service: Service) -> None:
    """Record and alert until the stop."""
    settings = cast(DlqHandlerSettings, service.settings)
    await wait_for_schema(settings.direct_url, NAME)
    webhook = Webhook(settings.webhook_url, settings.webhook_timeout)
    async with Database(settings.database_url, NAME, most=settings.database_connections) as database:
        alert = Alert(database, webhook, timedelta(seconds=settings.unalerted_after))
        record = RecordDead(database, alert)
        consumer = Consumer(
            settings.amqp_url,
            NAME,
            prefetch=settings.prefetch,
            receive_raw=record.receive,
            on_state=service.health.broker,
        )
        consumer.consume([topology.DEAD_QUEUE])
        service.health.broker("not connected yet")
        service.guard("consumer", consumer.run())
        service.start_loops(
            [
                Loop("alert", alert.run_once, 1.0),
                Loop("postgres", PostgresWatch(database, service.health).run_once, WATCH_SECONDS),
            ]
        )
        await service.wait_for_stop()
        await consumer.stop_consuming()
        await service.stop_tasks()
        await webhook.close()


def main() -> int:
    """Run the service and return its exit code."""
    return run(NAME, lambda: read(DlqHandlerSettings), serve)
