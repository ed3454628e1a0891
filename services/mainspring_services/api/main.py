"""Composition of the api."""

from __future__ import annotations

from functools import partial
from typing import cast

from mainspring.runtime.broker_watch import WATCH_SECONDS as BROKER_SECONDS
from mainspring.runtime.broker_watch import BrokerWatch
from mainspring.runtime.health import listen, server_for
from mainspring.runtime.key_ring import REFRESH_SECONDS as KEYS_SECONDS
from mainspring.runtime.key_ring import KeyRing
from mainspring.runtime.lent_credit import LentCredit
from mainspring.runtime.loop import Loop
from mainspring.runtime.patience import when_available
from mainspring.runtime.payload_schema import REFRESH_SECONDS, PayloadSchemas
from mainspring.runtime.postgres_watch import WATCH_SECONDS, PostgresWatch
from mainspring.runtime.service import Service, run
from mainspring.runtime.settings import read
from mainspring.runtime.submit import Submitter
from mainspring.runtime.wake import Wake
from mainspring.store.migrate import wait_for_schema
from mainspring.store.pool import Database
from mainspring.store.wakeups import LOAN_CHANNEL
from mainspring.store.wakeups import listen as hear
from mainspring.telemetry.logs import get_logger
from mainspring_services.api.app import make_app
from mainspring_services.api.event_feed import FEED_SECONDS, EventFeed
from mainspring_services.api.settings import ApiSettings
from mainspring_services.api.state import ApiState

NAME = "api"
log = get_logger(__name__)


async def serve(service: Service) -> None:
    """Serve HTTP until the stop."""
    settings = cast(ApiSettings, service.settings)
    tls = settings.tls()
    listener = listen(settings.host, settings.port)
    await wait_for_schema(settings.direct_url, NAME)
    async with Database(settings.database_url, NAME, most=settings.database_connections) as database:
        wake = Wake(database)
        schemas = PayloadSchemas(database)
        await when_available(schemas.run_once)
        keys = KeyRing(database, is_off=settings.auth == "off", is_open=settings.is_open)
        await when_available(keys.run_once)
        settings.check_access(has_keys=keys.has_keys)
        feed = EventFeed(database)
        lent = LentCredit()
        service.guard("loans", hear(settings.direct_url, NAME, {LOAN_CHANNEL: lent.hear}))
        parts = ApiState(database, wake, Submitter(database, wake, lent), schemas, keys, feed, service.health)
        service.start_loops(
            [
                Loop("payload_schemas", schemas.run_once, REFRESH_SECONDS),
                Loop("keys", keys.run_once, KEYS_SECONDS),
                Loop("event_feed", feed.run_once, FEED_SECONDS),
                Loop("postgres", PostgresWatch(database, service.health).run_once, WATCH_SECONDS),
            ]
        )
        if "amqp_url" in settings.model_fields_set:
            # It accepts jobs without the broker: what is wrong there is shown, and it stays ready.
            broker = BrokerWatch(settings.amqp_url, NAME, partial(service.health.note, "rabbitmq"))
            service.start_loops([Loop("rabbitmq", broker.run_once, BROKER_SECONDS)])
        service.guard(
            "http",
            server_for(make_app(parts, settings), h11_max_incomplete_event_size=65_536, **tls).serve_on(listener),
        )
        log.info("listening", host=settings.host, port=listener.getsockname()[1], auth=settings.auth)
        await service.wait_for_stop()
        feed.end()
        await service.stop_tasks()


def main() -> int:
    """Run the service and return its exit code."""
    return run(NAME, lambda: read(ApiSettings), serve)
