"""Schedules as one file has them: what would change, and the change, in one transaction.

A file names whole definitions; what it leaves out has its default. Schedules that it doesn't name stay, unless they are
to be pruned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mainspring.domain.definition import ScheduleDefinition, as_fields
from mainspring.domain.errors import InvalidInput
from mainspring.runtime import schedule_changes
from mainspring.store import schedules
from mainspring.store.pool import Conn

_PAGE = 500


@dataclass(frozen=True, slots=True)
class ChangedSchedule:
    """A schedule that differs, with what it was and would be, by field."""

    name: str
    before: dict[str, Any]
    after: dict[str, Any]


@dataclass(slots=True)
class AppliedSchedules:
    """What a file changes, by names in order."""

    created: list[str] = field(default_factory=list)
    changed: list[ChangedSchedule] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)


async def apply(
    connection: Conn, wanted: Sequence[ScheduleDefinition], *, prune: bool = False, dry_run: bool = False
) -> AppliedSchedules:
    """Make the schedules those of ``wanted``; with ``dry_run`` only say what would change.

    ``prune`` deletes those that it doesn't name. Raises InvalidInput naming ``schedules.<n>.<field>``.
    """
    _refuse_repeated(wanted)
    answer = AppliedSchedules()
    places = {one.name: index for index, one in enumerate(wanted)}
    for one in sorted(wanted, key=lambda each: each.name):
        await schedules.lock_name(connection, one.name)
        stored = await schedules.lock(connection, one.name)
        try:
            before = as_fields(stored.definition()) if stored else None
        except InvalidInput:
            before = {}  # what it holds can't be read any more: it is replaced
        after = as_fields(one)
        if before == after:
            answer.unchanged.append(one.name)
            continue
        if before is None:
            answer.created.append(one.name)
        else:
            answer.changed.append(_difference(one.name, before, after))
        if not dry_run:
            try:
                await schedule_changes.save(connection, one)
            except InvalidInput as error:
                raise InvalidInput(f"schedules.{places[one.name]}.{error.field}", error.message) from error
    if prune:
        await _prune(connection, set(places), answer, dry_run)
    return answer


async def _prune(connection: Conn, kept: set[str], answer: AppliedSchedules, dry_run: bool) -> None:
    last = ""
    while page := await schedules.list_after(connection, last, _PAGE):
        last = page[-1].name
        answer.deleted += [one.name for one in page if one.name not in kept]
    for name in [] if dry_run else answer.deleted:
        await schedule_changes.delete(connection, name)


def _refuse_repeated(wanted: Sequence[ScheduleDefinition]) -> None:
    seen: set[str] = set()
    for index, one in enumerate(wanted):
        if one.name in seen:
            raise InvalidInput(f"schedules.{index}.name", f"{one.name} is there twice")
        seen.add(one.name)


def _difference(name: str, before: dict[str, Any], after: dict[str, Any]) -> ChangedSchedule:
    differing = [each for each in after if before.get(each) != after[each]]
    return ChangedSchedule(
        name, {each: before.get(each) for each in differing}, {each: after[each] for each in differing}
    )
