"""Every snippet of the pages is run: Python, SQL, and each command, against real servers."""

from __future__ import annotations

import ast
import inspect
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import UUID, uuid4

import pytest
import typer.main

import mainspring
from mainspring.cli.main import app
from mainspring.client import Client
from mainspring.devstack import Stack
from mainspring.devstack.fleet import Fleet, open_fleet
from mainspring.store.pool import Conn, connect
from mainspring.tasks import TaskRegistry

from .. import snippet_tasks

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\S*)[ ]*(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(mainspring [a-z][^`]*)`")
#: Run by another test: what it is, and where.
ELSEWHERE = {
    "make": "the README's commands are what CI calls, and tests/e2e",
    "docker compose": "tests/e2e/test_compose.py",
    "MAINSPRING_CODE": "tests/e2e/test_compose.py",
    "COMPOSE_PROFILES": "tests/e2e/test_compose.py",
    "OTEL_": "tests/integration/test_traces.py",
    "export SSL_CERT_FILE": "tests/integration/test_tls.py",
    "mainspring dev": "tests/integration/test_dev.py",
    "mainspring worker": "tests/integration/test_http_task.py",
    "mainspring migrate": "tests/migration/test_migrate.py",
}
#: Exit codes that are meant: curl's of a stream that ends by its time limit, and those of the tutorial's mistakes.
MEANT = {"--max-time": 28, "articel": 2, "winding key": 1}
TABLES = """
CREATE TABLE payments (customer uuid, cents int);
CREATE TABLE orders (id int, number int);
DO $$ BEGIN CREATE ROLE shop; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
"""


@dataclass(frozen=True)
class Snippet:
    """A block of a page."""

    page: Path
    kind: str
    code: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}: {self.code.strip().splitlines()[0][:40]}"


def snippets(*kinds: str) -> list[Snippet]:
    found = [
        Snippet(page, kind, code)
        for page in PAGES
        if page.parent.name != "reference"
        for kind, file, code in BLOCK.findall(page.read_text())
        if kind in kinds and not file
    ]
    assert found
    return found


def commands(page: Path) -> list[str]:
    """The commands of a page's plain blocks, continued lines joined."""
    blocks = [code for kind, file, code in BLOCK.findall(page.read_text()) if kind == "" and not file]
    lines = [line.strip() for code in blocks for line in code.replace("\\\n", " ").splitlines()]
    known = ("mainspring ", "curl ", *ELSEWHERE)
    return [line for line in lines if line.startswith(known)]


@dataclass
class World:
    """A database with users' tables, and the services with a worker."""

    stack: Stack
    url: str
    environment: dict[str, str]
    api: str

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        words = shlex.split(command.replace("http://127.0.0.1:8080", self.api))
        if words[0] == "mainspring":
            words = [sys.executable, "-m", "mainspring.cli.main", *words[1:]]
        else:
            words += ["--silent", "--show-error", "--fail"]
        return subprocess.run(
            words, env=os.environ | self.environment, capture_output=True, text=True, check=False, timeout=60
        )


@pytest.fixture(scope="module")
def world(stack: Stack, template_database: str) -> Iterator[World]:
    name = f"snippets_{uuid4().hex[:12]}"
    url = stack.postgres.create_database(name, template_database)
    stack.postgres.execute(TABLES, url)
    vhost = stack.rabbitmq.create_vhost(name)
    urls = {"MAINSPRING_DATABASE_URL": url, "MAINSPRING_AMQP_URL": vhost}
    with open_fleet(urls, stack.folder, name, PYTHONPATH=str(Path(__file__).parents[1])) as fleet:
        yield _started(stack, url, urls, fleet)
    stack.rabbitmq.delete_vhost(name)
    stack.postgres.drop_database(name)


def _started(stack: Stack, url: str, urls: dict[str, str], fleet: Fleet) -> World:
    for service in ("scheduler", "dispatcher", "dlq_handler"):
        fleet.start(service)
    api = fleet.start("api")
    modules = ["snippet_tasks", "mainspring.http_task", *_modules_of_pages(stack.folder)]
    fleet.set_environment("PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[1]), str(stack.folder)]))
    fleet.start("worker", *modules, slots=4, runners=1)
    fleet.wait_ready()
    address = f"http://127.0.0.1:{api.port}"
    return World(stack, url, urls | {"MAINSPRING_API_URL": address}, address)


def _modules_of_pages(folder: Path) -> list[str]:
    """The tutorial's module, as its reader writes it."""
    (code,) = [one.code for one in snippets("python") if one.page.name == "tutorial.md"]
    (folder / "shop_tasks.py").write_text(code)
    return ["shop_tasks"]


@pytest.mark.timeout(240)
def test_every_command_of_the_pages_works(world: World) -> None:
    dead = world.run('mainspring submit shop.ship --payload \'{"article": "none"}\' --wait --json')
    assert dead.returncode == 1, dead.stderr
    dead_id = re.search(r'"id": "([0-9a-f-]+)"', dead.stdout)
    assert dead_id is not None
    tried = 0
    for page in PAGES:
        for command in commands(page):
            if page.name == "access.md" or command.startswith(tuple(ELSEWHERE)):
                continue
            done = world.run(command.replace("JOB_ID", dead_id[1]))
            tried += 1
            expected = next((code for word, code in MEANT.items() if word in command), 0)
            assert done.returncode == expected, f"{page.name}: {command}\n{done.stdout}\n{done.stderr}"
    assert tried > 20


def test_the_commands_about_keys_work(stack: Stack, template_database: str) -> None:
    name = f"snippets_keys_{uuid4().hex[:8]}"
    url = stack.postgres.create_database(name, template_database)
    with open_fleet({"MAINSPRING_DATABASE_URL": url}, stack.folder, name) as fleet:
        api = fleet.start("api")
        api.wait_ready()
        address = f"http://127.0.0.1:{api.port}"
        one = World(stack, url, {"MAINSPRING_DATABASE_URL": url, "MAINSPRING_API_URL": address}, address)
        create, show = commands(ROOT / "docs/how-to/access.md")
        made = one.run(create)
        key = re.search(r"msk_\w+", made.stdout + made.stderr)
        assert key is not None, made.stderr
        done = one.run(show.replace("msk_…", key[0]))
        assert done.returncode in (0, 22), done.stderr  # until the api has read the keys anew, any key is unknown
    stack.postgres.drop_database(name)


def inline_commands() -> list[tuple[str, str]]:
    return [(page.name, one) for page in PAGES for one in INLINE.findall(page.read_text())]


@pytest.mark.parametrize(("page", "command"), inline_commands())
def test_a_command_that_a_page_names_exists_with_its_options(page: str, command: str) -> None:
    words = command.split()[1:]
    found: Any = typer.main.get_command(app)
    while words and hasattr(found, "commands") and (word := words.pop(0)):
        assert word in found.commands, command
        found = found.commands[word]
    options = {name for parameter in getattr(found, "params", ()) for name in parameter.opts}
    named = {word.rstrip("`") for word in words if word.startswith("--")}
    assert named <= options | {"--json"}, command


def all_commands(group: Any, *above: str) -> Iterator[tuple[str, Any]]:
    for name, one in group.commands.items():
        if hasattr(one, "commands"):
            yield from all_commands(one, *above, name)
        else:
            yield " ".join([*above, name]), one


def test_every_command_s_help_has_an_example_of_itself() -> None:
    found = dict(all_commands(typer.main.get_command(app)))
    assert len(found) > 25
    for name, one in found.items():
        assert re.search(rf"Example: (MAINSPRING_\w+=\S+ )?mainspring {name}\b", one.help or ""), name


def test_every_sql_snippet_works(world: World) -> None:
    for one in snippets("sql"):
        world.stack.postgres.execute(one.code, world.url)
    before = int(world.stack.postgres.execute("SELECT count(*) FROM mainspring.job_details", world.url))
    world.stack.postgres.execute("INSERT INTO orders (number) VALUES (7)", world.url)
    after = int(world.stack.postgres.execute("SELECT count(*) FROM mainspring.job_details", world.url))
    assert after == before + 1, "the trigger submits"


class Gateway:
    """A partner that knows keys."""

    async def charge(self, customer: UUID, cents: int, *, idempotency_key: str) -> None:
        assert customer.version == 4
        assert cents > 0
        assert idempotency_key


async def place_order(order: int, client: Any) -> None:
    await client.submit(snippet_tasks.ship.request(order=order))


def names_for(one: Snippet, url: str, connection: Conn, client: Client) -> dict[str, Any]:
    """What the pages take for granted."""
    charge = snippet_tasks.charge_safely if "crash_at_each_await" in one.code else snippet_tasks.charge
    return {
        **{name: getattr(mainspring, name) for name in mainspring.__all__},
        "UUID": UUID,
        "datetime": datetime,
        "timedelta": timedelta,
        "UTC": UTC,
        "__name__": "snippet",
        "charge": charge,
        "ship": snippet_tasks.ship,
        "summarise": snippet_tasks.summarise,
        "customer": uuid4(),
        "cents": 990,
        "order": 7,
        "url": url,
        "place_order": place_order,
        "connection": connection,
        "client": client,
        "gateway": Gateway(),
        "ctx": type("Context", (), {"idempotency_key": "k"}),
    }


@pytest.fixture
async def users_database(stack: Stack, template_database: str) -> Any:
    name = f"snippet_{uuid4().hex[:12]}"
    url = stack.postgres.create_database(name, template_database)
    stack.postgres.execute(TABLES, url)
    yield url
    stack.postgres.drop_database(name)


@pytest.mark.parametrize("one", snippets("python"), ids=str)
async def test_every_python_snippet_runs(
    one: Snippet, stack: Stack, users_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in stack.environment().items():
        monkeypatch.setenv(name, value)
    code = compile(one.code, str(one), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    is_alone = "crash_at_each_await" in one.code  # nobody else may be connected then
    connection = None if is_alone else await connect(users_database, "snippet")
    async with Client(users_database) as client:
        names: Any = names_for(one, users_database, connection, client)
        running = eval(code, names)  # noqa: S307  our own pages
        if inspect.iscoroutine(running):
            await running
        if "delay" in names and inspect.iscoroutinefunction(names["delay"]):
            await names["delay"](7)
    if connection is not None:
        await connection.close()
    module = ModuleType("snippet")
    module.__dict__.update(names)
    TaskRegistry().add_module(module)
