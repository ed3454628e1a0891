"""Schedules as one file has them: what would change, and the change, in one transaction.

A file names whole definitions; what it leaves out has its default, but for ``paused``, which is the operators'.
Schedules that it doesn't name stay, unless they are to be pruned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mainspring.domain.definition import ScheduleDefinition, as_fields
from mainspring.domain.errors import InvalidInput, NotFound
from mainspring.runtime import schedule_changes
from mainspring.runtime.applied import Applied, applying
from mainspring.store import schedules
from mainspring.store.pool import Conn
from mainspring.store.schedules import StoredSchedule

_PAGE = 500


@dataclass(frozen=True, slots=True)
class WantedSchedule:
    """A schedule of a file."""

    definition: ScheduleDefinition
    #: Whether the file says if it is paused; otherwise it stays as it is.
    says_paused: bool = True

    def beside(self, stored: StoredSchedule | None) -> ScheduleDefinition:
        """The definition, with what it doesn't name as it is stored."""
        if stored is None or self.says_paused:
            return self.definition
        return replace(self.definition, paused=stored.row["paused"])


async def apply(
    connection: Conn,
    wanted: Sequence[WantedSchedule],
    *,
    prune: bool = False,
    dry_run: bool = False,
    digest: str | None = None,
) -> Applied:
    """Make the schedules those of ``wanted``; with ``dry_run`` only say what would change, and refuse what would be.

    ``prune`` deletes those that it doesn't name. ``digest``: of the difference that was shown; Conflict is raised when
    it is another one by now. Raises InvalidInput naming ``schedules.<n>.<field>``.
    """
    places = _places(wanted)
    answer = Applied()
    async with applying(connection, answer, dry_run=dry_run, digest=digest):
        names = set(places) | (await _all_names(connection) if prune else set())
        # In one order, as whatever locks several schedules does.
        for name in sorted(names):
            if name in places:
                await _apply_one(connection, places[name], wanted[places[name]], answer)
            else:
                await _prune_one(connection, name, answer)
    return answer


async def _apply_one(connection: Conn, place: int, wanted: WantedSchedule, answer: Applied) -> None:
    name = wanted.definition.name
    await schedules.lock_name(connection, name)
    stored = await schedules.lock(connection, name)
    definition = wanted.beside(stored)
    after = as_fields(definition)
    try:
        before = as_fields(stored.definition()) if stored else None
    except InvalidInput:
        before = {}  # what it holds can't be read any more: it is replaced
    if not answer.note(name, before, after):
        return
    try:
        await schedule_changes.save(connection, definition)
    except InvalidInput as error:
        raise InvalidInput(f"schedules.{place}.{error.field}", error.message) from error


async def _prune_one(connection: Conn, name: str, answer: Applied) -> None:
    try:
        await schedule_changes.delete(connection, name)
    except NotFound:
        return  # somebody else has just deleted it
    answer.deleted.append(name)


async def _all_names(connection: Conn) -> set[str]:
    names: set[str] = set()
    last = ""
    while page := await schedules.list_after(connection, last, _PAGE):
        last = page[-1].name
        names.update(one.name for one in page)
    return names


def _places(wanted: Sequence[WantedSchedule]) -> dict[str, int]:
    places: dict[str, int] = {}
    for index, one in enumerate(wanted):
        if one.definition.name in places:
            raise InvalidInput(f"schedules.{index}.name", f"{one.definition.name} is there twice")
        places[one.definition.name] = index
    return places
