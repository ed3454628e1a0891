"""What applying a file changes, and that it is what was shown: for files of schedules, and of queues and limits."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import Any

from mainspring.domain.errors import Conflict
from mainspring.store.pool import Conn


class _TakenBack(Exception):
    """A dry run is over."""


@dataclass(frozen=True, slots=True)
class Change:
    """A thing that differs, with what it was and would be, by field."""

    name: str
    before: dict[str, Any]
    after: dict[str, Any]


@dataclass(slots=True)
class Applied:
    """What a file changes, by names in order."""

    created: list[str] = field(default_factory=list)
    changed: list[Change] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)

    def note(self, name: str, before: dict[str, Any] | None, after: dict[str, Any]) -> bool:
        """Note what becomes of a thing whose fields were ``before``, if it was there; True: it has to be written."""
        differing = [each for each in after if before is None or _text(before.get(each)) != _text(after[each])]
        if before is None:
            self.created.append(name)
        elif differing:
            old = {each: before.get(each) for each in differing}
            self.changed.append(Change(name, old, {each: after[each] for each in differing}))
        else:
            self.unchanged.append(name)
        return bool(differing)

    def digest(self) -> str:
        """Of the difference: whoever was shown it can ask that nothing else is applied."""
        difference = [self.created, [asdict(one) for one in self.changed], self.deleted]
        return sha256(_text(difference).encode()).hexdigest()


@asynccontextmanager
async def applying(connection: Conn, applied: Applied, *, dry_run: bool, digest: str | None) -> AsyncIterator[None]:
    """A transaction within the caller's, in which all is changed and noted; a dry run does it all, and takes it back.

    ``digest``: of the difference that was shown; Conflict is raised when it is another one by now.
    """
    with suppress(_TakenBack):
        async with connection.transaction():
            yield
            if digest is not None and digest != applied.digest():
                raise Conflict("what would change is not what was shown: somebody has changed something; look again")
            if dry_run:
                raise _TakenBack


def _text(value: Any) -> str:
    """Values that differ differ as text: for Python, true is 1."""
    return json.dumps(value, sort_keys=True)
