"""Queues and limits as one file has them: what would change, and the change, in one transaction.

A file names whole settings; what it leaves out has its default. Queues that it doesn't name stay as they are; limits
that it doesn't name stay, unless they are to be pruned.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from mainspring.domain.errors import InvalidInput
from mainspring.domain.limits import Limit
from mainspring.runtime.applied import Applied, applying
from mainspring.store import limits, queues
from mainspring.store.pool import Conn
from mainspring.store.queues import Queue

#: What a queue has of which nothing is said.
DEFAULTS: dict[str, Any] = {
    "release_window": 2000,
    "concurrency": None,
    "fair_by": None,
    "fair_weights": {},
    "default_priority": None,
    "default_timeout_seconds": None,
    "default_retry": None,
    "default_expiry_seconds": None,
    "aging_seconds": 300.0,
    "most_waiting": None,
    "retention": None,
}
#: Text of JSON in a row of the queues.
_TEXTS = {"fair_weights", "default_retry", "retention"}


@dataclass(frozen=True, slots=True)
class WantedQueue:
    """A queue of a file, with the settings that it names."""

    name: str
    settings: dict[str, Any] = field(default_factory=dict)


async def apply(
    connection: Conn,
    wanted_queues: Sequence[WantedQueue],
    wanted_limits: Sequence[Limit],
    *,
    prune: bool = False,
    dry_run: bool = False,
    digest: str | None = None,
) -> Applied:
    """Make queues and limits those of a file; with ``dry_run`` only say what would change.

    ``prune`` lifts the limits that it doesn't name. Raises InvalidInput naming ``queues.<n>.<field>``; Conflict when
    the difference is not the one of ``digest``.
    """
    _check_once("queues", [one.name for one in wanted_queues])
    _check_once("limits", [one.name for one in wanted_limits])
    answer = Applied()
    async with applying(connection, answer, dry_run=dry_run, digest=digest):
        stored = {one.name: one for one in await queues.all_queues(connection)}
        for queue in sorted(wanted_queues, key=lambda one: one.name):
            await _apply_queue(connection, queue, stored.get(queue.name), answer)
        known = {one.name: one for one in await limits.named(connection)}
        for limit in sorted(wanted_limits, key=lambda one: one.name):
            await _apply_limit(connection, limit, known.get(limit.name), answer)
        for name in sorted(known.keys() - {one.name for one in wanted_limits}) if prune else ():
            await limits.delete(connection, name)
            answer.deleted.append(f"limit {name}")
    return answer


async def _apply_queue(connection: Conn, wanted: WantedQueue, stored: Queue | None, answer: Applied) -> None:
    after = DEFAULTS | wanted.settings
    if not answer.note(f"queue {wanted.name}", _fields(stored) if stored else None, after):
        return
    await queues.make_queues(connection, [wanted.name])
    await queues.set_concurrency(connection, wanted.name, after["concurrency"])
    await queues.change(connection, wanted.name, {name: each for name, each in after.items() if name != "concurrency"})


async def _apply_limit(connection: Conn, wanted: Limit, stored: Limit | None, answer: Applied) -> None:
    before = _limit_fields(stored) if stored else None
    if answer.note(f"limit {wanted.name}", before, _limit_fields(wanted)):
        await limits.save(connection, wanted)


def _fields(stored: Queue) -> dict[str, Any]:
    fields = {name: getattr(stored, name) for name in DEFAULTS}
    return fields | {name: json.loads(fields[name]) for name in _TEXTS if fields[name] is not None}


def _limit_fields(one: Limit) -> dict[str, Any]:
    return {name: each for name, each in asdict(one).items() if name not in {"id", "name", "circuit", "shut_for"}}


def _check_once(place: str, names: Sequence[str]) -> None:
    for index, name in enumerate(names):
        if name in names[:index]:
            raise InvalidInput(f"{place}.{index}.name", f"{name} is there twice")
