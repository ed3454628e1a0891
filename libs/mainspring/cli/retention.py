"""``mainspring retention``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from mainspring.cli.api_client import call
from mainspring.cli.output import Json, show
from mainspring.domain.errors import InvalidInput

app = typer.Typer(no_args_is_help=True, help="How long ended jobs, results, history and keys are kept.")


@app.command("show")
def show_all(as_json: Json = False) -> None:
    """How long things are kept, unless their queue says otherwise.

    Example: mainspring retention show
    """
    show(call("GET", "/v1/retention"), as_json)


@app.command("set")
def save(
    succeeded: Annotated[float | None, typer.Option(help="Days, of jobs that have succeeded.")] = None,
    cancelled: Annotated[float | None, typer.Option(help="Days, of cancelled jobs.")] = None,
    results: Annotated[str | None, typer.Option(help="Days, of results; none: as long as their jobs.")] = None,
    history: Annotated[float | None, typer.Option(help="Days, of attempts and events.")] = None,
    keys: Annotated[float | None, typer.Option(help="Days, of idempotency keys, for so much longer.")] = None,
    as_json: Json = False,
) -> None:
    """Keep things for so long from now on; what isn't named stays as it is.

    Example: mainspring retention set --succeeded 14 --results 1
    """
    given: dict[str, Any] = {"succeeded_days": succeeded, "cancelled_days": cancelled, "history_days": history}
    body = {name: value for name, value in (given | {"keys_days": keys}).items() if value is not None}
    if results is not None:
        body["results_days"] = _days(results)
    if not body:
        raise InvalidInput("settings", "give at least one of them: mainspring retention set --help")
    show(call("PUT", "/v1/retention", body=call("GET", "/v1/retention") | body), as_json)


def _days(text: str) -> float | None:
    if text == "none":
        return None
    try:
        return float(text)
    except ValueError:
        raise InvalidInput("results", f"{text!r} is neither a number of days nor none") from None
