"""``mainspring circuits``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from mainspring.cli.api_client import call
from mainspring.cli.output import Json, say, show, show_list
from mainspring.domain.errors import InvalidInput

app = typer.Typer(no_args_is_help=True, help="What tasks depend on, and whether their jobs are held because it fails.")


@app.command("list")
def list_all(as_json: Json = False) -> None:
    """All circuits by name.

    Example: mainspring circuits list
    """
    columns = ("name", "state", "left", "failures", "opened_at", "probed_at", "probes", "tasks", "last_error")
    show_list(call("GET", "/v1/circuits"), columns, as_json)


@app.command("show")
def show_one(name: str, as_json: Json = False) -> None:
    """A circuit.

    Example: mainspring circuits show payments-api
    """
    show(call("GET", f"/v1/circuits/{name}"), as_json)


@app.command("set")
def save(
    name: str,
    failures: Annotated[int | None, typer.Option(help="It opens when more attempts fail in a --period,")] = None,
    period: Annotated[float | None, typer.Option(help="of so many seconds,")] = None,
    share: Annotated[float | None, typer.Option(help="and more than this share of all, such as 0.5.")] = None,
    hold: Annotated[float | None, typer.Option(help="Seconds until a job probes it.")] = None,
    as_json: Json = False,
) -> None:
    """Say when a circuit opens; what isn't given has its default.

    Example: mainspring circuits set payments-api --failures 20 --period 60 --share 0.25
    """
    given: dict[str, Any] = {"failures": failures, "period_seconds": period, "share": share, "hold_seconds": hold}
    body = {field: value for field, value in given.items() if value is not None}
    if not body:
        raise InvalidInput("settings", "give at least one of them: mainspring circuits set --help")
    show(call("PUT", f"/v1/circuits/{name}", body=body), as_json)


@app.command("open")
def open_one(
    name: str,
    seconds: Annotated[float, typer.Option(help="After so long a job probes it.")] = 3600,
    note: Annotated[str | None, typer.Option(help="For those who look later.")] = None,
    as_json: Json = False,
) -> None:
    """Hold the jobs of a circuit.

    Example: mainspring circuits open payments-api --seconds 7200 --note 'their maintenance'
    """
    show(call("POST", f"/v1/circuits/{name}/open", body={"seconds": seconds, "note": note}), as_json)


@app.command()
def close(name: str, as_json: Json = False) -> None:
    """Close a circuit: all its jobs go on at once.

    Example: mainspring circuits close payments-api
    """
    show(call("POST", f"/v1/circuits/{name}/close"), as_json)


@app.command()
def delete(name: str) -> None:
    """Forget a circuit that no task names.

    Example: mainspring circuits delete payments-api
    """
    call("DELETE", f"/v1/circuits/{name}")
    say(f"{name} is deleted")
