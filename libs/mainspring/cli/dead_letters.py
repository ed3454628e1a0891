"""``mainspring dlq``."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console

from mainspring.cli.api_client import call, pages
from mainspring.cli.output import Json, Limit, show, show_list
from mainspring.domain.errors import InvalidInput, NotFound

app = typer.Typer(no_args_is_help=True, help="Look after dead letters.")
#: How many jobs one request puts back to work: between two the person sees progress, and can stop.
REDRIVEN_AT_ONCE = 500

Queue = Annotated[str | None, typer.Option(help="Of this queue.")]
Task = Annotated[str | None, typer.Option(help="Of this task.")]
Reason = Annotated[str | None, typer.Option(help="Dead for this reason: exhausted, permanent or expired.")]
Fingerprint = Annotated[str | None, typer.Option(help="Died like this; `dlq groups` shows them.")]


@app.command("list")
def list_newest(
    queue: Queue = None,
    task: Task = None,
    reason: Reason = None,
    fingerprint: Fingerprint = None,
    limit: Limit = 50,
    as_json: Json = False,
) -> None:
    """Dead letters that pass all filters, the newest first.

    Example: mainspring dlq list --task billing.charge --reason exhausted
    """
    page = pages("/v1/dead-letters", limit, queue=queue, task=task, reason=reason, fingerprint=fingerprint)
    show_list(page, ("id", "kind", "task", "queue", "reason", "outcome", "died_at", "fingerprint"), as_json)


@app.command()
def groups(queue: Queue = None, task: Task = None, as_json: Json = False) -> None:
    """Dead letters that died alike, as groups, the largest first.

    Example: mainspring dlq groups --queue billing
    """
    page = call("GET", "/v1/dead-letters/groups", queue=queue, task=task)
    show_list(page, ("letters", "task", "queue", "reason", "fingerprint", "first_died_at", "last_died_at"), as_json)


@app.command("show")
def show_letter(job_id: str, as_json: Json = False) -> None:
    """A dead job with its attempts and events.

    Example: mainspring dlq show 01a228fd-d2d0-799d-870e-9d4fbcc2f891
    """
    job = call("GET", f"/v1/jobs/{job_id}")
    if job["state"] != "dead":
        raise NotFound(f"job {job_id} is {job['state']}, not dead")
    show(job, as_json)


@app.command()
def redrive(
    job_ids: Annotated[list[str] | None, typer.Argument(help="These dead jobs; or give filters, or --all.")] = None,
    queue: Queue = None,
    task: Task = None,
    reason: Reason = None,
    fingerprint: Fingerprint = None,
    all_of_them: Annotated[bool, typer.Option("--all", help="Every dead job.")] = False,
    as_json: Json = False,
) -> None:
    """Put dead jobs back to work, each with a fresh attempt budget.

    Example: mainspring dlq redrive --task billing.charge --reason exhausted
    """
    filters = {"queue": queue, "task": task, "reason": reason, "fingerprint": fingerprint}
    wanted = {name: value for name, value in filters.items() if value is not None}
    if bool(job_ids) + bool(wanted) + all_of_them != 1:
        raise InvalidInput("job_ids", "give jobs, or filters, or --all")
    if not job_ids:
        show({"redriven": _redrive_all(wanted)}, as_json)
        return
    for job_id in job_ids:
        call("POST", f"/v1/dead-letters/{job_id}/redrive")
    show({"redriven": len(job_ids)}, as_json)


def _redrive_all(wanted: dict[str, Any]) -> int:
    total = 0
    with Console(stderr=True).status("redriving") as status:
        while True:
            body = wanted | {"limit": REDRIVEN_AT_ONCE}
            redriven = int(call("POST", "/v1/dead-letters/redrive", body=body)["redriven"])
            total += redriven
            status.update(f"{total} redriven")
            if redriven < REDRIVEN_AT_ONCE:
                return total


@app.command()
def discard(
    letter_id: str,
    why: Annotated[str | None, typer.Option(help="For those who look later.")] = None,
    as_json: Json = False,
) -> None:
    """Decide that nothing is to be done: the job stays dead, and its history says why.

    Example: mainspring dlq discard 01a228fd-d2d0-799d-870e-9d4fbcc2f891 --why 'the customer is gone'
    """
    call("POST", f"/v1/dead-letters/{letter_id}/discard", body={"why": why})
    show({"id": letter_id, "discarded": True}, as_json)
