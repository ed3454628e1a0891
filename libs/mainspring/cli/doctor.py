"""``mainspring doctor``."""

from __future__ import annotations

import asyncio
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from mainspring.cli.api_client import DEFAULT_URL
from mainspring.cli.output import Json, say, show, show_list

if TYPE_CHECKING:
    from mainspring.runtime.diagnosis import Finding

REBUILD_HELP = (
    "Delete the broker's queues of waiting work, and have a scheduler declare them and release every job again."
)


def doctor(
    as_json: Json = False, rebuild: Annotated[bool, typer.Option("--rebuild-broker", help=REBUILD_HELP)] = False
) -> None:
    """Check the servers, the schema, the clocks and the fleet; say how to mend what is wrong. Exit 1 when anything is.

    Reads MAINSPRING_DATABASE_URL, MAINSPRING_AMQP_URL and MAINSPRING_API_URL. With --rebuild-broker it checks nothing
    and has the queues made anew: nothing is lost and nothing runs twice, for jobs are rows.

    Example: mainspring doctor
    """
    # The drivers take longer to load than most commands to run: only who needs them loads them.
    from mainspring.runtime.diagnosis import diagnose
    from mainspring.runtime.rebuild_broker import rebuild_broker
    from mainspring.runtime.settings import Settings, read
    from mainspring.telemetry import logs

    logs.configure("doctor", "WARNING")
    if rebuild:
        say("deleting the queues; a scheduler makes them again …")
        show(asdict(asyncio.run(rebuild_broker(read(Settings)))), as_json)
        return
    findings = [*asyncio.run(diagnose(read(Settings))), _api()]
    items = [asdict(one) | {"is_ok": one.is_ok if as_json else "ok" if one.is_ok else "NOT OK"} for one in findings]
    show_list({"items": items, "next": None}, ("is_ok", "check", "found", "mend"), as_json)
    if not all(one.is_ok for one in findings):
        raise typer.Exit(1)


def _api() -> Finding:
    import httpx

    from mainspring.runtime.diagnosis import Finding

    url = os.environ.get("MAINSPRING_API_URL", DEFAULT_URL)
    try:
        answer = httpx.get(f"{url}/readyz", timeout=5)
    except httpx.HTTPError as error:
        return Finding("api", False, f"{url}: {error}", "start `mainspring api`, or set MAINSPRING_API_URL")
    found = f"{url}: HTTP {answer.status_code}"
    return Finding("api", answer.is_success, found, "" if answer.is_success else "look at the api's log")
