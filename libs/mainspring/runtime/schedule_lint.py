"""What may not be meant about a stored schedule, with the duration that its runs were measured at."""

from __future__ import annotations

from mainspring.domain.errors import InvalidInput
from mainspring.domain.lint import LintWarning, lint
from mainspring.store import fleet, forecast
from mainspring.store.pool import Conn
from mainspring.store.schedules import StoredSchedule


async def warnings_of(connection: Conn, one: StoredSchedule) -> list[LintWarning]:
    """The warnings of a schedule; one that can't be evaluated has its own word."""
    try:
        definition = one.definition()
        measured = await forecast.mean_seconds_of_schedules(connection, [one.name])
        now = await fleet.now(connection)
        return lint(definition, now=now, excluded_days=one.excluded_days, mean_seconds=measured.get(one.name))
    except InvalidInput as error:
        return [LintWarning("broken", str(error))]
