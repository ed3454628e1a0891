"""The driver's errors are ours; a cancellation that nobody asked for is one of them."""

from __future__ import annotations

import asyncio

import pytest
from aiormq.exceptions import AMQPConnectionError

from mainspring.broker.connection import Unconfirmed, translated
from mainspring.domain.errors import BrokerUnavailable


@pytest.mark.parametrize(
    "error",
    [AMQPConnectionError("x"), ConnectionResetError(), EOFError(), RuntimeError("closed"), StopAsyncIteration()],
)
def test_whatever_a_lost_connection_raises_says_that_the_broker_is_away(error):
    with pytest.raises(BrokerUnavailable), translated("connect"):
        raise error


def test_no_answer_is_an_unknown():
    with pytest.raises(Unconfirmed), translated("publish"):
        raise TimeoutError


async def test_the_drivers_own_cancellation_says_that_the_broker_is_away():
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    with pytest.raises(BrokerUnavailable), translated("publish"):
        await future


async def test_a_cancellation_from_outside_stays_one():
    async def wait():
        with translated("publish"):
            await asyncio.Event().wait()

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_timeout_within_is_an_unknown():
    with pytest.raises(Unconfirmed), translated("publish"):
        async with asyncio.timeout(0.01):
            await asyncio.Event().wait()
