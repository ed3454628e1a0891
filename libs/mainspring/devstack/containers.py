"""The two servers as containers, where a Docker engine of this machine answers and has, or can pull, their images.

For people, whose machine may have nothing else; tests that break servers run them as processes. The containers are
published on 127.0.0.1 alone. They end with their block; should their owner be killed, the keeper removes them.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPException
from typing import TYPE_CHECKING, Any

from mainspring.devstack.errors import NotReadyError, ProvisioningError, RefusedError
from mainspring.devstack.keeper import CONTAINERS
from mainspring.devstack.management import Management

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack

    from mainspring.devstack.workspace import Workspace

POSTGRES_IMAGE = "postgres:17"
RABBITMQ_IMAGE = "rabbitmq:4.1-management"
_USER = "mainspring"
_READY_SECONDS = 90.0
_LOOK_SECONDS = 0.2
_ENGINE_SECONDS = 5
_PULL_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Urls:
    """Where the two servers answer."""

    database: str
    amqp: str
    management: str


def start_containers(workspace: Workspace, cleanup: ExitStack) -> Urls | None:
    """Start both servers and have ``cleanup`` end them; None without an engine here or the images.

    Raises NotReadyError.
    """
    if not _has_images():
        return None
    from testcontainers.core.config import testcontainers_config

    # The keeper clears up after us: no container of theirs is needed for that, nor a pull of its image.
    testcontainers_config.ryuk_disabled = True
    rabbitmq = _start(
        workspace,
        cleanup,
        RABBITMQ_IMAGE,
        [5672, 15672],
        {"RABBITMQ_DEFAULT_USER": _USER, "RABBITMQ_DEFAULT_PASS": _USER},
    )
    postgres = _start(workspace, cleanup, POSTGRES_IMAGE, [5432], {"POSTGRES_USER": _USER, "POSTGRES_PASSWORD": _USER})
    urls = Urls(
        f"postgresql://{_USER}:{_USER}@127.0.0.1:{postgres.get_exposed_port(5432)}/{_USER}",
        f"amqp://{_USER}:{_USER}@127.0.0.1:{rabbitmq.get_exposed_port(5672)}/%2F",
        f"http://{_USER}:{_USER}@127.0.0.1:{rabbitmq.get_exposed_port(15672)}",
    )
    # Over TCP: while its image prepares the data, the server listens on a socket of its own only.
    is_ready = ["pg_isready", "--quiet", "--host", "127.0.0.1", "--username", _USER]
    _wait(POSTGRES_IMAGE, postgres, lambda: bool(postgres.exec(is_ready).exit_code == 0))
    _wait(RABBITMQ_IMAGE, rabbitmq, lambda: _accepts_amqp(urls.management))
    return urls


def _has_images() -> bool:
    """True when an engine of this machine answers and both images are there, pulled if need be."""
    if not os.environ.get("DOCKER_HOST", "unix:").startswith("unix:"):
        return False  # what another machine's engine publishes isn't here
    try:
        import docker
        from docker.errors import DockerException
    except ImportError:
        return False
    try:
        with closing(docker.from_env(timeout=_ENGINE_SECONDS)) as client:
            client.ping()
            known = {tag for image in client.images.list() for tag in image.tags}
    except (DockerException, OSError):
        return False
    return all(_pull(image) for image in (POSTGRES_IMAGE, RABBITMQ_IMAGE) if image not in known)


def _pull(image: str) -> bool:
    import docker
    from docker.errors import DockerException

    print(f"mainspring: pulling {image} …", file=sys.stderr)
    try:
        with closing(docker.from_env(timeout=_PULL_SECONDS)) as client:
            client.images.pull(*image.split(":"))
    except (DockerException, OSError) as error:
        print(f"mainspring: it can't be had, so programs of this machine are used: {error}", file=sys.stderr)
        return False
    return True


def _start(workspace: Workspace, cleanup: ExitStack, image: str, ports: list[int], environment: dict[str, str]) -> Any:
    from docker.errors import DockerException
    from testcontainers.core.container import DockerContainer

    # A port of the engine's choice, on this machine alone.
    published: Any = {f"{port}/tcp": ("127.0.0.1", None) for port in ports}
    container = DockerContainer(image, env=environment)
    container.ports = published
    cleanup.callback(container.get_docker_client().client.close)
    cleanup.callback(container.stop)
    try:
        container.start()
    except DockerException as error:
        raise ProvisioningError(f"Docker can't start {image}: {error}") from error
    with (workspace.path / CONTAINERS).open("a") as names:
        names.write(f"{container.get_container_id()}\n")
    return container


def _accepts_amqp(management_url: str) -> bool:
    try:
        listeners = Management(management_url).ask("GET", "overview")["listeners"]
    except (OSError, HTTPException, RefusedError, ValueError):
        return False
    return any(one["protocol"] == "amqp" for one in listeners)


def _wait(image: str, container: Any, is_ready: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + _READY_SECONDS
    while not is_ready():
        if time.monotonic() > give_up_at:
            last = b"".join(container.get_logs())[-2000:].decode(errors="replace")
            raise NotReadyError(f"{image} is not ready after {_READY_SECONDS:g} s:\n{last}")
        time.sleep(_LOOK_SECONDS)
