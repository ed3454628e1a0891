"""What is kept of a run that found something: logs and rows, for a person to read."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from mainspring.devstack.errors import DevstackError

from .world import World, say

#: What ends a run before its end: a server or a service that doesn't come back, or an answer that makes no sense.
BROKEN_OFF = (DevstackError, TimeoutError, httpx.HTTPError)
ROWS = {
    "jobs": "SELECT * FROM mainspring.jobs ORDER BY created_at",
    "live_jobs": "SELECT * FROM mainspring.live_jobs",
    "attempts": "SELECT * FROM mainspring.attempts ORDER BY job_id, fence",
    "fires": "SELECT * FROM mainspring.fires ORDER BY nominal_at",
    "workers": "SELECT * FROM mainspring.workers",
    "ledger": "SELECT * FROM chaos.ledger ORDER BY at",
    "effects": "SELECT * FROM chaos.effects",
}


def keep(world: World) -> None:
    """Copy the servers' and services' logs, and the rows as JSON lines, to a folder that stays, and say where."""
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    for log in [*world.servers.folder.glob("*/log"), *world.servers.folder.glob("chaos/*.log")]:
        name = f"{log.parent.name}.log" if log.name == "log" else log.name
        shutil.copyfile(log, folder / name)
    with suppress(DevstackError):
        queues = [one for one in world.servers.rabbitmq.queues("/") if one.get("messages")]
        (folder / "queues.json").write_text(json.dumps(queues, indent=1) + "\n")
    for name, sql in ROWS.items():
        with suppress(DevstackError):
            rows = world.servers.postgres.execute(
                f"SELECT coalesce(string_agg(to_json(one)::text, E'\\n'), '') FROM ({sql}) AS one"
            )
            (folder / f"{name}.jsonl").write_text(rows + "\n")
    say(f"logs and rows are kept in {folder}")


@contextmanager
def kept_after_an_error(world: World) -> Iterator[None]:
    """Keep the evidence should the block fail."""
    try:
        yield
    except BROKEN_OFF:
        keep(world)
        raise
