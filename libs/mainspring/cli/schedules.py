"""``mainspring schedules``."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from mainspring.cli import backfills, schedule_file, schedule_lint, schedule_save
from mainspring.cli.api_client import call, pages
from mainspring.cli.output import Json, Limit, say, show, show_list
from mainspring.domain.errors import InvalidInput
from mainspring.domain.job import check_instant
from mainspring.domain.schedule import fire_times, make_trigger

app = typer.Typer(no_args_is_help=True, help="Look after schedules.")
MOST = 100_000
#: Fire times that are shown when nothing says how many.
PREVIEWED = 10

OneName = Annotated[str | None, typer.Argument(help="One schedule.", show_default=False)]
Prefix = Annotated[str | None, typer.Option(help="Those whose names begin so.")]
OfTask = Annotated[str | None, typer.Option("--task", help="Those of a task.")]
OfQueue = Annotated[str | None, typer.Option("--queue", help="Those that name a queue.")]
OfTag = Annotated[str | None, typer.Option("--tag", help="Those with a tag.")]
Everything = Annotated[bool, typer.Option("--all", help="Every schedule.")]
app.command("lint")(schedule_lint.lint)
app.command("save")(schedule_save.save)
app.command("apply")(schedule_file.apply)
app.command("backfill")(backfills.backfill)
app.command("backfills")(backfills.list_all)


@app.command()
def preview(
    cron: str,
    start: Annotated[str | None, typer.Option("--from", help="The first instant; default: now.")] = None,
    timezone: Annotated[str, typer.Option(help="An IANA zone.")] = "UTC",
    until: Annotated[str | None, typer.Option(help="The end, itself excluded.")] = None,
    count: Annotated[int | None, typer.Option(help=f"How many; without --until {PREVIEWED} unless given.")] = None,
    as_json: Json = False,
) -> None:
    """When an expression fires; needs no server.

    Example: mainspring schedules preview '30 2 * * *' --timezone America/New_York --from 2025-03-08T00:00:00Z --count 3
    """
    if until is not None and count is not None:
        raise InvalidInput("until", "give either --until or --count")
    if count is not None and not 1 <= count <= MOST:
        raise InvalidInput("count", f"must be from 1 to {MOST}")
    first = _instant("from", start) if start else datetime.now(UTC)
    end = _instant("until", until) if until else None
    most = count or (MOST if end else PREVIEWED)
    trigger = make_trigger(cron=cron, timezone=timezone, anchor=first)
    times = [one.strftime("%Y-%m-%dT%H:%M:%SZ") for one in fire_times(trigger, first, end, most)]
    print(json.dumps({"fire_times": times}) if as_json else "\n".join(times))


def _instant(field: str, text: str) -> datetime:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(field, f"{text!r} is no instant such as 2026-03-01T00:00:00Z") from None
    check_instant(field, instant)
    return instant


@app.command("list")
def list_all(
    prefix: Prefix = None,
    task: OfTask = None,
    queue: OfQueue = None,
    tag: OfTag = None,
    paused: Annotated[bool | None, typer.Option(help="Only those that are paused, or that aren't.")] = None,
    as_json: Json = False,
) -> None:
    """All schedules, or those that fit.

    Example: mainspring schedules list --tag nightly --paused
    """
    page = pages("/v1/schedules", MOST, prefix=prefix, task=task, queue=queue, tag=tag, paused=paused)
    show_list(page, ("name", "task", "cron", "every_seconds", "timezone", "paused", "next_nominal_at"), as_json)


@app.command("show")
def show_one(name: str, as_json: Json = False) -> None:
    """A schedule, and when it fires in words.

    Example: mainspring schedules show nightly
    """
    show(call("GET", f"/v1/schedules/{name}"), as_json)


@app.command()
def fires(name: str, limit: Limit = 20, as_json: Json = False) -> None:
    """What became of its nominal times, the latest first.

    Example: mainspring schedules fires nightly --limit 50
    """
    page = pages(f"/v1/schedules/{name}/fires", limit)
    shown = ("nominal_at", "nominal_times", "job_id", "skipped", "lateness_seconds", "backfill")
    show_list(page, shown, as_json)


@app.command()
def delete(name: str) -> None:
    """Delete a schedule; the jobs that it made, and the record of its fires, stay.

    Example: mainspring schedules delete nightly
    """
    call("DELETE", f"/v1/schedules/{name}")
    say(f"{name} is deleted")


@app.command()
def pause(
    name: OneName = None,
    note: Annotated[str | None, typer.Option(help="For those who look later.")] = None,
    prefix: Prefix = None,
    task: OfTask = None,
    queue: OfQueue = None,
    tag: OfTag = None,
    everything: Everything = False,
    as_json: Json = False,
) -> None:
    """Pause a schedule, or all that fit.

    Example: mainspring schedules pause --tag nightly --note 'while the books are closed'
    """
    _set_paused("pause", name, _filter(prefix, task, queue, tag, everything), note, as_json)


@app.command()
def resume(
    name: OneName = None,
    prefix: Prefix = None,
    task: OfTask = None,
    queue: OfQueue = None,
    tag: OfTag = None,
    everything: Everything = False,
    as_json: Json = False,
) -> None:
    """Resume a schedule, or all that fit; nothing is caught up.

    Example: mainspring schedules resume --tag nightly
    """
    _set_paused("resume", name, _filter(prefix, task, queue, tag, everything), None, as_json)


def _filter(
    prefix: str | None, task: str | None, queue: str | None, tag: str | None, everything: bool
) -> dict[str, Any]:
    given = {"prefix": prefix, "task": task, "queue": queue, "tag": tag, "all": everything or None}
    return {field: value for field, value in given.items() if value is not None}


def _set_paused(verb: str, name: str | None, which: dict[str, Any], note: str | None, as_json: bool) -> None:
    if (name is None) == (not which):
        raise InvalidInput("name", "give a name, or say which: --prefix, --task, --queue, --tag, --all")
    if name is not None:
        show(call("POST", f"/v1/schedules/{name}/{verb}", note=note), as_json)
        return
    body = which | ({"note": note} if note is not None else {})
    answer = call("POST", f"/v1/schedules/{verb}", body=body)
    if as_json:
        print(json.dumps(answer))
        return
    for each in answer["changed"]:
        print(each)
    for each, why in answer["refused"].items():
        say(f"{each}: {why}")
    say(f"{verb}d {len(answer['changed'])}")


@app.command()
def trigger(name: str, as_json: Json = False) -> None:
    """Make a job of a schedule now.

    Example: mainspring schedules trigger nightly
    """
    show(call("POST", f"/v1/schedules/{name}/trigger"), as_json)
