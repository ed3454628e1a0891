"""The skeleton of a service process: its background tasks end when it stops."""

from __future__ import annotations

import asyncio

import pytest

from mainspring.domain.errors import MainspringError
from mainspring.runtime import service
from mainspring.runtime.service import Service
from mainspring.runtime.settings import Settings


@pytest.mark.timeout(10)
async def test_a_task_that_loses_its_cancellation_is_stopped_all_the_same(monkeypatch):
    monkeypatch.setattr(service, "CLEAN_UP_SECONDS", 0.05)
    one = Service("test", Settings())
    answer = asyncio.get_running_loop().create_future()

    async def wait_twice():
        await asyncio.wait_for(answer, 60)
        await asyncio.Event().wait()

    task = one.guard("waits", wait_twice())
    await asyncio.sleep(0)
    # The answer and the cancellation come in one turn of the loop.
    answer.set_result(None)
    await one.stop_tasks()
    assert task.done()


async def test_a_task_s_clean_up_is_waited_for():
    one = Service("test", Settings())
    cleaned = []

    async def clean_up():
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.1)
            cleaned.append(True)

    one.guard("cleans", clean_up())
    await asyncio.sleep(0)
    await one.stop_tasks()
    assert cleaned == [True]


async def test_a_task_that_is_cancelled_before_the_stop_ends_the_service():
    one = Service("test", Settings())
    task = one.guard("consumer", asyncio.Event().wait())
    await asyncio.sleep(0)
    task.cancel()
    await one.stopping.wait()
    with pytest.raises(MainspringError, match="consumer was cancelled"):
        one.raise_failure()


async def test_a_task_that_the_stop_cancels_is_no_failure():
    one = Service("test", Settings())
    one.guard("consumer", asyncio.Event().wait())
    await asyncio.sleep(0)
    await one.stop_tasks()
    one.raise_failure()
