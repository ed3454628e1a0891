"""``mainspring forecast``."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from itertools import groupby
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from mainspring.cli.api_client import call
from mainspring.cli.output import Json, say
from mainspring.domain.errors import InvalidInput

#: The api looks at every schedule; of 100,000 that takes a while.
_PATIENCE = 120.0
_BAR_WIDTH = 40
_MOST_SHOWN = 30
_DAY = 24


def forecast(
    hours: Annotated[int, typer.Option(min=1, max=168, help="How far to look.")] = _DAY,
    suggest: Annotated[bool, typer.Option("--suggest", help="Propose jitters that lower the peaks.")] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Propose them, and set them.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --apply: don't ask.")] = False,
    as_json: Json = False,
) -> None:
    """What the schedules will ask of the fleet: fires, slots needed, and who makes the peaks.

    Example: mainspring forecast --hours 168 --suggest
    """
    if apply and as_json and not yes:
        raise InvalidInput("yes", "with --apply and --json give --yes too: nobody can be asked")
    if not suggest and not apply:
        found = call("GET", "/v1/forecast", hours=hours, timeout=_PATIENCE)
        print(json.dumps(found)) if as_json else _show(found, hours)
        return
    proposal = call("GET", "/v1/forecast/suggestion", hours=hours, timeout=_PATIENCE)
    if not as_json:
        _show_proposal(proposal)
    elif not apply:
        print(json.dumps(proposal))
    if apply:
        _apply(proposal, yes, as_json)


def _apply(proposal: dict[str, Any], yes: bool, as_json: bool) -> None:
    moves = [{name: move[name] for name in ("name", "jitter_seconds")} for move in proposal["schedules"]]
    if moves and not yes:
        typer.confirm(f"Set the jitter of {len(moves)} schedules?", abort=True, err=True)
    body = {"schedules": moves}
    # An empty proposal is no mistake: there is nothing to do.
    done = call("POST", "/v1/forecast/suggestion/apply", body=body, timeout=_PATIENCE) if moves else {"changed": []}
    if as_json:
        print(json.dumps(done))
    else:
        say(f"set the jitter of {len(done['changed'])} schedules")


def _show(found: dict[str, Any], hours: int) -> None:
    console = Console()
    console.print(_chart(found, 1 if hours <= _DAY else 4))
    console.print(f"{found['schedules']} schedules, {found['slots']} slots, times in UTC")
    if found["peaks"]:
        console.print(_peaks(found))
    if found["unknown_durations"]:
        say(f"{found['unknown_durations']} schedules have no run yet: their jobs count as 1 second")
    _say_incomplete(found)


def _chart(found: dict[str, Any], hours_in_row: int) -> Table:
    """A row for so many hours, with what its highest buckets need."""
    in_minute = 60 / found["bucket_seconds"]
    rows = [
        (at, max(one["fires"] for one in some) * in_minute, max(one["slots_needed"] for one in some))
        for at, some in (
            (at, list(some)) for at, some in groupby(found["buckets"], lambda one: _row(one, hours_in_row))
        )
    ]
    top = max([found["slots"], *(needed for _, _, needed in rows)])
    table = _table("from", ">fires/min", ">slots", "")
    for at, fires, needed in rows:
        table.add_row(f"{at:%a %d %H:%M}", f"{fires:,.0f}", f"{needed:,.1f}", _bar(needed, found["slots"], top))
    return table


def _row(bucket: dict[str, Any], hours: int) -> datetime:
    at = datetime.fromisoformat(bucket["at"])
    midnight = at.replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight + (at - midnight) // timedelta(hours=hours) * timedelta(hours=hours)


def _bar(needed: float, slots: int, top: float) -> Text:
    """As long as what is needed, red beyond the slots there are; a line shows where these end."""
    length, limit = (round(one / top * _BAR_WIDTH) if top else 0 for one in (needed, slots))
    within = min(length, limit) if slots else length
    bar = Text("█" * within, style="green")
    if slots and needed > slots:
        return bar.append("█" * max(length - within, 1), style="red")
    return bar.append(" " * (limit - within) + "│", style="dim") if slots else bar


def _peaks(found: dict[str, Any]) -> Table:
    table = _table("peak", ">fires", ">slots", "made by")
    for peak in found["peaks"]:
        names = ", ".join(f"{one['name']} {one['share']:.0%}" for one in peak["schedules"][:3])
        more = f", {len(peak['schedules']) - 3} more" if len(peak["schedules"]) > 3 else ""
        style = "red" if 0 < found["slots"] < peak["slots_needed"] else ""
        table.add_row(
            _time(peak["at"]), str(peak["fires"]), f"{peak['slots_needed']:,.1f}", escape(names + more), style=style
        )
    return table


def _show_proposal(proposal: dict[str, Any]) -> None:
    moves = proposal["schedules"]
    if not moves:
        say("nothing to spread")
        return
    table = _table("schedule", ">jitter now", ">proposed")
    for move in moves[:_MOST_SHOWN]:
        table.add_row(escape(move["name"]), f"{move['present_jitter_seconds']:g} s", f"{move['jitter_seconds']:g} s")
    console = Console()
    console.print(table)
    before, after = (proposal[one] for one in ("before", "after"))
    console.print(
        f"highest now {before['slots_needed']:,.1f} slots at {_time(before['at'])},"
        f" then {after['slots_needed']:,.1f} at {_time(after['at'])}; {proposal['slots']} slots"
    )
    if len(moves) > _MOST_SHOWN:
        say(f"the first {_MOST_SHOWN} of {len(moves)}; all with --json")
    if proposal["left_out"]:
        say(f"{proposal['left_out']} more schedules make the same peaks: apply, and ask again")
    _say_incomplete(proposal)


def _say_incomplete(found: dict[str, Any]) -> None:
    if found["incomplete"]:
        say("incomplete: there are more schedules or fires than one forecast looks at")


def _table(*columns: str) -> Table:
    """``>`` before a name: its figures end at the right."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1))
    for name in columns:
        table.add_column(name.removeprefix(">"), justify="right" if name.startswith(">") else "left")
    return table


def _time(text: str) -> str:
    return f"{datetime.fromisoformat(text):%a %d %H:%M}"
