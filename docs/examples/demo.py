"""The main job, end to end: three kinds of work while services are killed and the broker is restarted.

Everything that the table claims is counted in the database or on disk; the exit code is 0 only if all of it
holds. The last line on stdout is the table as JSON.
"""

from __future__ import annotations

import json
import sys
import time
import uuid
from pathlib import Path

import httpx
from demo_checks import Line, check_all
from demo_sink import AlertSink
from PIL import Image
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from skimage import data as photographs_package

from mainspring.devstack import DevstackError, Stack, start_stack
from mainspring.devstack.fleet import Fleet, ServiceProcess, open_fleet

HERE = Path(__file__).parent
MONTH = "2026-11"
CUSTOMERS, UNKNOWN = 2_000, 20
EVERY_SECONDS = 3
MOST_SECONDS = 80
TABLES = """
CREATE SCHEMA IF NOT EXISTS demo;
DROP TABLE IF EXISTS demo.customers, demo.payments, demo.summaries;
CREATE TABLE demo.customers (id uuid PRIMARY KEY);
CREATE TABLE demo.payments (customer uuid, month text, cents integer);
CREATE TABLE demo.summaries (nominal_at timestamptz, payments bigint);
"""
say = Console(stderr=True)


def main() -> int:
    """Run the demo."""
    say.print("starting Postgres and RabbitMQ …")
    with (
        start_stack() as stack,
        AlertSink() as sink,
        open_fleet(stack.environment(), stack.folder, PYTHONPATH=str(HERE)) as fleet,
    ):
        return Demo(stack, fleet, sink).run()


class Demo:
    """The demo on running servers."""

    def __init__(self, stack: Stack, fleet: Fleet, sink: AlertSink) -> None:
        self.stack, self.fleet, self.sink = stack, fleet, sink
        self.customers = [uuid.uuid4() for _ in range(CUSTOMERS)]
        self.pictures = stack.folder / "thumbnails"
        self.killed: list[str] = []

    def run(self) -> int:
        """Submit, break things, check."""
        self.start_services()
        started = time.monotonic()
        photographs = self.submit()
        self.break_things()
        self.wait_until_done(started + MOST_SECONDS)
        seconds = time.monotonic() - started
        lines = check_all(
            self.stack.postgres.execute, self.customers, self.sink, self.pictures, photographs, self.killed
        )
        return show(lines, seconds)

    def start_services(self) -> None:
        """Migrate, then five kinds of services; two workers."""
        say.print("starting the services …")
        self.pictures.mkdir()
        self.fleet.migrate()
        self.stack.postgres.execute(TABLES)
        ids = ",".join(f"('{customer}')" for customer in self.customers)
        self.stack.postgres.execute(f"INSERT INTO demo.customers VALUES {ids}")
        self.api = self.fleet.start("api")
        self.scheduler = self.fleet.start("scheduler")
        self.dispatcher = self.fleet.start("dispatcher")
        self.fleet.start("dlq_handler", webhook_url=self.sink.url)
        modules = ("billing", "thumbnails", "reports")
        self.worker = self.fleet.start("worker", *modules, slots=20, runners=1)
        self.fleet.start("worker", *modules, slots=20, runners=1)
        self.fleet.wait_ready()
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{self.api.port}", timeout=30)

    def submit(self) -> list[Path]:
        """Everything over HTTP: charges and thumbnails in batches, and the schedule."""
        charges = [self.charge(customer) for customer in self.customers]
        charges += [self.charge(uuid.uuid4()) for _ in range(UNKNOWN)]
        for start in range(0, len(charges), 500):
            self.post("/v1/jobs/batch", {"jobs": charges[start : start + 500]})
        photographs = find_photographs()
        self.post("/v1/jobs/batch", {"jobs": [self.thumbnail(photograph) for photograph in photographs]})
        report = {"name": "summary", "task": "reports.summarise", "every_seconds": EVERY_SECONDS, "overlap": "allow"}
        self.post("/v1/schedules", report)
        return photographs

    def charge(self, customer: uuid.UUID) -> dict[str, object]:
        """One customer's charge."""
        payload = {"customer": str(customer), "month": MONTH, "cents": 990}
        return {"task": "billing.charge", "payload": payload, "idempotency_key": f"billing:{customer}:{MONTH}"}

    def thumbnail(self, photograph: Path) -> dict[str, object]:
        """One photograph's thumbnails."""
        return {"task": "thumbnails.make", "payload": {"photograph": str(photograph), "folder": str(self.pictures)}}

    def post(self, path: str, body: dict[str, object]) -> None:
        """POST, and insist."""
        self.http.post(path, json=body).raise_for_status()

    def break_things(self) -> None:
        """At given shares of the payments: SIGKILL a worker, the scheduler, the dispatcher; restart the broker."""
        with Progress(console=say) as progress:
            bar = progress.add_task("payments", total=CUSTOMERS)

            def reach(share: float) -> None:
                while (count := self.payments()) < share * CUSTOMERS:
                    progress.update(bar, completed=count)
                    time.sleep(0.1)

            reach(0.1)
            self.kill(self.worker)
            reach(0.25)
            self.kill(self.scheduler)
            reach(0.4)
            self.kill(self.dispatcher)
            reach(0.55)
            self.restart_broker()
            reach(0.8)
            progress.update(bar, completed=self.payments())

    def kill(self, service: ServiceProcess) -> None:
        """SIGKILL and start again."""
        say.print(f"SIGKILL to the {service.name} (pid {service.pid}), and started again")
        service.kill()
        service.start()
        self.killed.append(service.name)

    def restart_broker(self) -> None:
        """Stop the broker with all it holds, and start it again."""
        try:
            self.stack.rabbitmq.restart()
        except DevstackError as error:
            say.print(f"the broker is not restarted: {error}")
            return
        say.print("the broker was restarted")
        self.killed.append("broker")

    def payments(self) -> int:
        """Payments so far."""
        return int(self.stack.postgres.execute("SELECT count(*) FROM demo.payments"))

    def wait_until_done(self, give_up_at: float) -> None:
        """Pause the schedule when the charges are through; wait until nothing is left to run."""
        query = "SELECT count(*) FROM mainspring.jobs WHERE state NOT IN ('succeeded', 'cancelled', 'dead')"
        with say.status("waiting for the last jobs …"):
            while int(self.stack.postgres.execute(f"{query} AND schedule IS NULL")) and time.monotonic() < give_up_at:
                time.sleep(0.2)
            self.http.post("/v1/schedules/summary/pause").raise_for_status()
            while int(self.stack.postgres.execute(query)) and time.monotonic() < give_up_at:
                time.sleep(0.2)
            self.sink.wait_for(UNKNOWN, give_up_at)


def find_photographs() -> list[Path]:
    """The real photographs that the scikit-image package ships."""
    folder = Path(photographs_package.__file__).parent
    found = []
    for path in sorted(folder.glob("*.jpg")) + sorted(folder.glob("*.png")):
        with Image.open(path) as picture:
            if min(picture.size) >= 300:
                found.append(path)
    return found


def show(lines: list[Line], seconds: float) -> int:
    """The table, then the JSON line; the exit code."""
    table = Table("", "what", "expected", "found", title=f"after {seconds:.0f} s")
    for line in lines:
        mark = "[green]ok[/]" if line.holds else "[red]NO[/]"
        table.add_row(mark, line.what, str(line.expected), str(line.found))
    Console().print(table)
    is_ok = all(line.holds for line in lines)
    figures = {line.name: line.found for line in lines}
    print(json.dumps({"ok": is_ok, "seconds": round(seconds, 1), **figures}))
    return 0 if is_ok else 1


if __name__ == "__main__":
    sys.exit(main())
