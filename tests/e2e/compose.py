"""A compose project of its own: other ports and another name than what a person may have running."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from mainspring.devstack.ports import free_ports

ROOT = Path(__file__).parents[2]
PORTS = ("", "_POSTGRES", "_RABBITMQ", "_RABBITMQ_MANAGEMENT", "_PROMETHEUS", "_JAEGER")


@dataclass
class Project:
    """The stack as a person would see it: by its published ports and by the docker command."""

    name: str
    ports: dict[str, int]
    environment: dict[str, str] = field(default_factory=dict)

    def compose(self, *arguments: str) -> str:
        """Run `docker compose …` for this project."""
        done = subprocess.run(
            ["docker", "compose", *arguments],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert done.returncode == 0, f"{' '.join(arguments)}:\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def containers(self, service: str) -> list[dict[str, Any]]:
        """What the engine knows of a service's containers."""
        ids = self.compose("ps", "--all", "--quiet", service).split()
        found = subprocess.run(["docker", "inspect", *ids], capture_output=True, text=True, check=True)
        inspected: list[dict[str, Any]] = json.loads(found.stdout)
        return inspected

    def url(self, port: str = "") -> str:
        """Where a published port answers."""
        return f"http://127.0.0.1:{self.ports[port]}"

    def ask(self, method: str, path: str, **more: Any) -> Any:
        """Ask the api."""
        answer = httpx.request(method, self.url() + path, timeout=60, **more)
        assert answer.is_success, answer.text
        return answer.json()

    def submit(self, **payload: Any) -> str:
        """Submit the example task."""
        return str(self.ask("POST", "/v1/jobs", json={"task": "hello", "payload": payload})["id"])

    def until(self, condition: Callable[[], Any], seconds: float = 60) -> Any:
        """Wait until ``condition`` is true, while containers come and go."""
        give_up_at = time.monotonic() + seconds
        while True:
            try:
                if found := condition():
                    return found
            except (httpx.HTTPError, AssertionError):
                pass
            assert time.monotonic() < give_up_at, self.compose("logs", "--tail", "15")
            time.sleep(0.5)


@contextmanager
def running_project() -> Iterator[Project]:
    """Build, start, and take everything down again."""
    ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
    variables = {f"MAINSPRING{name}_PORT": str(port) for name, port in ports.items()}
    # Jaeger's image is not needed for what is tested here.
    name = f"mainspring-test-{os.getpid()}"
    project = Project(name, ports, os.environ | variables | {"COMPOSE_PROJECT_NAME": name, "COMPOSE_PROFILES": ""})
    try:
        project.compose("up", "--build", "--wait", "--wait-timeout", "300")
        yield project
    finally:
        project.compose("down", "--volumes", "--remove-orphans", "--timeout", "30")
