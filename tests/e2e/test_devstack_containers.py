"""The devstack's servers as containers: they serve, and nothing is left of them, however their owner ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from mainspring.devstack import start_stack
from mainspring.devstack.errors import NotOursError

pytestmark = pytest.mark.timeout(240)
OWNER = """
import signal, sys
from mainspring.devstack import start_stack
with start_stack(containers=True) as stack:
    print(stack.postgres.execute("SELECT 1"), flush=True)
    signal.pause()
"""


@pytest.fixture(autouse=True)
def own_servers(monkeypatch) -> None:
    for name in ("MAINSPRING_DATABASE_URL", "MAINSPRING_AMQP_URL"):
        monkeypatch.delenv(name, raising=False)


def containers() -> set[str]:
    done = subprocess.run(["docker", "ps", "--all", "--quiet"], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_both_serve_and_are_gone_afterwards() -> None:
    before = containers()
    with start_stack(containers=True) as stack:
        assert len(containers() - before) == 2
        assert stack.postgres.execute("SELECT 1") == "1"
        assert stack.rabbitmq.create_vhost("one").endswith("/one")
        with pytest.raises(NotOursError):
            stack.rabbitmq.kill()
    assert containers() == before


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_of_a_killed_owner(number: signal.Signals) -> None:
    before = containers()
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    assert owner.stdout.readline() == "1\n"
    owner.send_signal(number)
    owner.wait(30)
    owner.stdout.close()
    give_up_at = time.monotonic() + 30
    while containers() != before:
        assert time.monotonic() < give_up_at
        time.sleep(0.2)
