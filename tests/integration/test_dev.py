"""`mainspring dev` as a newcomer uses it: one command, a task, an edit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from mainspring.devstack.ports import free_ports

TASKS = """
from mainspring import JobContext, task

@task("hello.greet", queue="hello")
async def greet(ctx: JobContext, *, name: str, times: int = 1) -> str:
    return f"{WORD}, {name}"
"""


class Dev:
    """A running `mainspring dev`."""

    def __init__(self, folder: Path, database_url: str, vhost_url: str) -> None:
        self.folder = folder
        (self.port,) = free_ports(1)
        self.log = folder / "dev.log"
        environment = os.environ | {"MAINSPRING_DATABASE_URL": database_url, "MAINSPRING_AMQP_URL": vhost_url}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "mainspring.cli.main", "dev", "mytasks", "--port", str(self.port)],
                cwd=folder,
                env=environment,
                stderr=log,
                stdout=log,
            )

    def until_said(self, text: str, count: int = 1) -> str:
        give_up_at = time.monotonic() + 60
        while (said := self.log.read_text()).count(text) < count:
            assert self.process.poll() is None, said
            assert time.monotonic() < give_up_at, said
            time.sleep(0.1)
        return said

    def greeting(self, name: str) -> str:
        with httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=40) as http:
            job = http.post("/v1/jobs", json={"task": "hello.greet", "payload": {"name": name}}).json()
            return str(http.get(f"/v1/jobs/{job['id']}/result", params={"wait": 30}).json()["result"])


@pytest.fixture
def dev(tmp_path: Path, database_url: str, vhost_url: str) -> Iterator[Dev]:
    (tmp_path / "mytasks.py").write_text(TASKS.replace("{WORD}", "Hello"))
    one = Dev(tmp_path, database_url, vhost_url)
    yield one
    one.process.send_signal(signal.SIGINT)
    assert one.process.wait(30) == 0, one.log.read_text()


@pytest.mark.timeout(180)
def test_one_command_starts_everything_and_an_edit_is_run(dev: Dev) -> None:
    said = dev.until_said("Ctrl-C stops everything")
    # What it says to try is something that works.
    (line,) = [one for one in said.splitlines() if "submit hello.greet" in one]
    assert json.loads(line.split("'")[1]) == {"name": "…"}
    assert dev.greeting("Ada") == "Hello, Ada"

    (dev.folder / "mytasks.py").write_text(TASKS.replace("{WORD}", "Bonjour"))
    dev.until_said("has started again")
    assert dev.greeting("Ada") == "Bonjour, Ada"

    (dev.folder / "mytasks.py").write_text("this is no Python")
    assert "mytasks can't be imported" in dev.until_said("starts again with the next change")
    (dev.folder / "mytasks.py").write_text(TASKS.replace("{WORD}", "Hej"))
    dev.until_said("has started again", count=3)
    assert dev.greeting("Ada") == "Hej, Ada"
