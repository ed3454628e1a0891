"""The command's entry: groups, and errors as exit codes.

Exit codes: 0 done; 1 it failed; 2 bad input or a wrong setting; 3 not found; 4 a server can't be reached.
"""

from __future__ import annotations

import sys

import typer

from mainspring.cli import (
    bulk,
    calendars,
    circuits,
    dead_letters,
    dev,
    doctor,
    forecast,
    jobs,
    keys,
    limits,
    migrate,
    queues,
    retention,
    schedules,
    services,
)
from mainspring.domain.errors import InvalidInput, MainspringError, Misconfigured, NotFound, Unavailable

app = typer.Typer(
    no_args_is_help=True, help="Background jobs and cron schedules on a fleet.", pretty_exceptions_enable=False
)
services.add_to(app)
app.command("migrate")(migrate.migrate)
app.command("dev")(dev.dev)
app.command("doctor")(doctor.doctor)
app.command("forecast")(forecast.forecast)
app.command("submit")(jobs.submit)
app.add_typer(jobs.app, name="jobs")
app.add_typer(schedules.app, name="schedules")
app.add_typer(calendars.app, name="calendars")
app.add_typer(queues.app, name="queues")
app.add_typer(limits.app, name="limits")
app.add_typer(dead_letters.app, name="dlq")
app.add_typer(bulk.app, name="bulk")
app.add_typer(circuits.app, name="circuits")
app.add_typer(retention.app, name="retention")
app.add_typer(queues.workers_app, name="workers")
app.add_typer(keys.app, name="keys")

EXIT_CODES: tuple[tuple[type[MainspringError], int], ...] = (
    (InvalidInput, 2),
    (Misconfigured, 2),
    (NotFound, 3),
    (Unavailable, 4),
    (MainspringError, 1),
)


def main() -> None:
    """Run the command line and exit."""
    try:
        app()
    except MainspringError as error:
        print(f"mainspring: {error}", file=sys.stderr)
        raise SystemExit(next(code for kind, code in EXIT_CODES if isinstance(error, kind))) from None


if __name__ == "__main__":
    main()
