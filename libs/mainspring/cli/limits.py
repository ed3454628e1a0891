"""``mainspring limits``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from mainspring.cli.api_client import call
from mainspring.cli.output import Json, say, show, show_list
from mainspring.domain.errors import InvalidInput
from mainspring.domain.limits import Strategy

app = typer.Typer(no_args_is_help=True, help="Limit how many jobs start, in a span of time or at once.")


@app.command("list")
def list_all(as_json: Json = False) -> None:
    """All limits by name.

    Example: mainspring limits list
    """
    columns = ("name", "kind", "most", "period_seconds", "burst", "per", "strategy", "queues", "tasks", "note")
    show_list(call("GET", "/v1/limits"), columns, as_json)


@app.command("show")
def show_one(name: str, as_json: Json = False) -> None:
    """A limit, and the keys that use it.

    Example: mainspring limits show charges
    """
    show(call("GET", f"/v1/limits/{name}"), as_json)


@app.command("set")
def save(
    name: str,
    concurrency: Annotated[int | None, typer.Option(help="At most so many jobs at once.")] = None,
    rate: Annotated[int | None, typer.Option(help="At most so many starts in each --period.")] = None,
    period: Annotated[float, typer.Option(help="Seconds, of a rate.")] = 1.0,
    burst: Annotated[int | None, typer.Option(help="Of a rate: so many at once; else all of it.")] = None,
    queue: Annotated[list[str] | None, typer.Option(help="On the jobs of a queue; may be given again.")] = None,
    task: Annotated[list[str] | None, typer.Option(help="On the jobs of a task; may be given again.")] = None,
    per: Annotated[str | None, typer.Option(help="For each value at this place in the payload: customer.id")] = None,
    cost: Annotated[str | None, typer.Option(help="Where the payload says how much of a rate a job takes.")] = None,
    strategy: Annotated[
        Strategy, typer.Option(help="Of a concurrency: what a due job does that finds it full.")
    ] = Strategy.WAIT,
    ordered: Annotated[
        bool, typer.Option("--ordered", help="With --concurrency 1: keep the order of each key.")
    ] = False,
    note: Annotated[str | None, typer.Option(help="For those who look later.")] = None,
    as_json: Json = False,
) -> None:
    """Create or replace a limit.

    Example: mainspring limits set charges --task billing.charge --rate 100 --period 60 --per customer
    """
    if (concurrency is None) == (rate is None):
        raise InvalidInput("rate", "give either --concurrency or --rate")
    body: dict[str, Any] = {"queues": queue or [], "tasks": task or [], "per": per, "cost": cost, "note": note}
    body |= {"strategy": strategy.value, "ordered": ordered}
    if rate is None:
        body |= {"kind": "concurrency", "most": concurrency, "burst": burst}
    else:
        body |= {"kind": "rate", "most": rate, "period_seconds": period, "burst": burst}
    show(call("PUT", f"/v1/limits/{name}", body=body), as_json)


@app.command()
def delete(name: str) -> None:
    """Lift a limit.

    Example: mainspring limits delete charges
    """
    call("DELETE", f"/v1/limits/{name}")
    say(f"{name} is deleted")
