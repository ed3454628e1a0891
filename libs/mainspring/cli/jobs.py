"""``mainspring submit`` and ``mainspring jobs``."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from mainspring.cli.api_client import call, pages
from mainspring.cli.output import Json, Limit, say, show, show_list
from mainspring.domain.errors import InvalidInput

app = typer.Typer(no_args_is_help=True, help="Look after jobs.")
LONGEST_WAIT = 60.0
Payload = Annotated[str, typer.Option(help="A JSON object, such as '{\"cents\": 990}'.")]


def submit(
    task: str,
    payload: Payload = "{}",
    queue: Annotated[str | None, typer.Option(help="Instead of the task's own queue.")] = None,
    at: Annotated[str | None, typer.Option(help="When it may start, such as 2026-12-24T18:00:00Z.")] = None,
    delay: Annotated[float | None, typer.Option(help="Seconds until it may start.")] = None,
    priority: Annotated[int | None, typer.Option(help="0 (first) to 9.")] = None,
    idempotency_key: Annotated[str | None, typer.Option(help="The same key gives the same job.")] = None,
    wait: Annotated[bool, typer.Option(help="Wait for the end; exit 1 when it is dead or cancelled.")] = False,
    as_json: Json = False,
) -> None:
    """Submit a job.

    Example: mainspring submit billing.charge --payload '{"customer": "…", "cents": 990}' --wait
    """
    body: dict[str, Any] = {"task": task, "payload": _object(payload)}
    given = {"queue": queue, "run_at": at, "delay_seconds": delay, "priority": priority}
    given |= {"idempotency_key": idempotency_key}
    job = call("POST", "/v1/jobs", body=body | {name: value for name, value in given.items() if value is not None})
    if wait:
        job = _wait_for(job["id"])
    show(job, as_json)
    if wait and job["state"] != "succeeded":
        raise typer.Exit(1)


def _wait_for(job_id: str) -> Any:
    while True:
        call("GET", f"/v1/jobs/{job_id}/result", wait=LONGEST_WAIT, timeout=LONGEST_WAIT + 10)
        job = call("GET", f"/v1/jobs/{job_id}")
        if job["state"] in {"succeeded", "cancelled", "dead"}:
            return job


def _object(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidInput("payload", f"is not JSON: {error}") from None


@app.command("list")
def list_newest(
    state: Annotated[list[str] | None, typer.Option(help="One of these states; can be given several times.")] = None,
    queue: Annotated[str | None, typer.Option(help="Of this queue.")] = None,
    task: Annotated[str | None, typer.Option(help="Of this task.")] = None,
    tag: Annotated[str | None, typer.Option(help="With this tag.")] = None,
    since: Annotated[str | None, typer.Option(help="Submitted at this instant or later.")] = None,
    until: Annotated[str | None, typer.Option(help="Submitted before this instant.")] = None,
    limit: Limit = 50,
    as_json: Json = False,
) -> None:
    """Jobs that pass all filters, the newest first.

    Example: mainspring jobs list --state running --state retrying --queue billing
    """
    page = pages("/v1/jobs", limit, state=state, queue=queue, task=task, tag=tag, since=since, until=until)
    show_list(page, ("id", "task", "queue", "state", "reason", "attempts_used", "due_at", "finished_at"), as_json)


@app.command("show")
def show_job(job_id: str, as_json: Json = False) -> None:
    """A job with its attempts and events.

    Example: mainspring jobs show 01a228fd-d2d0-799d-870e-9d4fbcc2f891
    """
    show(call("GET", f"/v1/jobs/{job_id}"), as_json)


@app.command()
def why(job_id: str, as_json: Json = False) -> None:
    """Why a job isn't running: what stands before it, the first first.

    Example: mainspring jobs why 01a228fd-d2d0-799d-870e-9d4fbcc2f891
    """
    answer = call("GET", f"/v1/jobs/{job_id}/why")
    if as_json:
        print(json.dumps(answer))
        return
    say(f"{answer['state']}" + ("" if answer["blockers"] else ": nothing stands before it"))
    for number, blocker in enumerate(answer["blockers"], 1):
        print(f"{number}. {blocker['message']}")


@app.command()
def edit(
    job_id: str,
    priority: Annotated[int | None, typer.Option(help="0 (first) to 9.")] = None,
    at: Annotated[str | None, typer.Option(help="When it may start, such as 2026-12-24T18:00:00Z.")] = None,
    payload: Annotated[str | None, typer.Option(help="The whole payload anew, as a JSON object.")] = None,
    as_json: Json = False,
) -> None:
    """Change a job that waits or retries.

    Example: mainspring jobs edit 01a228fd-d2d0-799d-870e-9d4fbcc2f891 --priority 0
    """
    given = {"priority": priority, "run_at": at, "payload": None if payload is None else _object(payload)}
    body = {name: value for name, value in given.items() if value is not None}
    show(call("PATCH", f"/v1/jobs/{job_id}", body=body), as_json)


@app.command()
def cancel(job_id: str, as_json: Json = False) -> None:
    """Cancel a job; a running one is asked to stop.

    Example: mainspring jobs cancel 01a228fd-d2d0-799d-870e-9d4fbcc2f891
    """
    show(call("POST", f"/v1/jobs/{job_id}/cancel"), as_json)


@app.command()
def retry(job_id: str, as_json: Json = False) -> None:
    """Redrive a dead or cancelled job; make a retrying one due now.

    Example: mainspring jobs retry 01a228fd-d2d0-799d-870e-9d4fbcc2f891
    """
    show(call("POST", f"/v1/jobs/{job_id}/retry"), as_json)
