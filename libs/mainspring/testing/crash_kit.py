"""What a crash does to a handler's writes, tried out: it is killed at each of its awaits in turn, and run again.

Each trial begins with a copy of the same database and ends as a real one would: the process is killed without a word,
the server rolls back what was open, and the next attempt runs to its end. What lies in the tables then is held, row by
row, against a run without a crash; columns that differ between two such runs (ids, instants) are left out.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from mainspring.batches import BatchTask
from mainspring.domain.errors import InvalidInput
from mainspring.domain.job import JobRequest
from mainspring.store.copies import copied, rows_of
from mainspring.tasks import Task

#: A handler that waits more often than this is not tried further.
MOST_AWAITS = 500
#: Beyond any await: the attempt is not killed at all.
NEVER = -1


@dataclass(frozen=True, slots=True)
class Crash:
    """What was left after a crash at one await and the run that followed."""

    #: Which of the handler's waits had just ended, from 1, and the line that waited.
    number: int
    place: str
    #: What one run alone doesn't leave: rows by table, effects under ``outside``. Mostly something that happened twice.
    twice: dict[str, list[str]]
    #: What one run alone leaves, and is missing. A row that was changed twice is here as it should be.
    lost: dict[str, list[str]]
    #: Why the run after the crash failed, if it did.
    error: str | None

    @property
    def is_clean(self) -> bool:
        """True when the crash and the next run left exactly what one run leaves, and the next run succeeded."""
        return not self.twice and not self.lost and self.error is None


@dataclass(frozen=True, slots=True)
class CrashReport:
    """All crashes that were tried, in the order of the handler's awaits."""

    task: str
    crashes: tuple[Crash, ...]

    @property
    def faults(self) -> tuple[Crash, ...]:
        """The crashes that weren't clean."""
        return tuple(one for one in self.crashes if not one.is_clean)

    def __str__(self) -> str:
        """For a person: one line for each crash, and what it left."""
        lines = [f"{self.task}: killed at {len(self.crashes)} points, {len(self.faults)} of them with a fault"]
        for one in self.crashes:
            lines.append(f"  {'ok  ' if one.is_clean else 'FAIL'} {one.number:3} {one.place}")
            for word, found in (("twice", one.twice), ("lost", one.lost)):
                lines += [f"           {word}: {where} {row}" for where, rows in found.items() for row in rows]
            if one.error:
                lines.append(f"           the next run failed: {one.error}")
        return "\n".join(lines)


async def crash_at_each_await(
    one: Task[Any, Any],
    request: JobRequest,
    *,
    database_url: str | None = None,
    outside: Callable[[], Sequence[object]] | None = None,
) -> CrashReport:
    """Run the handler once undisturbed, then kill it at each await in turn, and run it again after each crash.

    ``database_url``: a database with the handler's tables, to which nobody is connected; every trial gets a copy of
    it, whose URL the handler finds in ``MAINSPRING_DATABASE_URL``. The role must be allowed to create databases.
    ``outside``: what the handler has done elsewhere so far (the calls that a stand-in of yours has received). The task
    must be an async one at the top of a module that can be imported. Raises InvalidInput otherwise.
    """
    if not one.is_async:
        raise InvalidInput("task", f"{one.name} is a plain function: it has no awaits")
    if isinstance(one, BatchTask):
        raise InvalidInput("task", f"{one.name} takes many jobs at once, which this kit can't crash")
    async with _server(one) as ask:
        trials = _Trials(one, request, database_url, outside or (lambda: ()), ask)
        left, answer = await trials.run(NEVER)
        if answer["error"]:
            raise InvalidInput("request", f"the handler fails without any crash: {answer['error']}")
        other, _ = await trials.run(NEVER)
        expected = _Expected.of(left, other)
        numbers = range(1, min(answer["awaits"], MOST_AWAITS) + 2)
        return CrashReport(one.name, tuple([await trials.crash(number, expected) for number in numbers]))


Rows = dict[str, list[dict[str, Any]]]
Ask = Callable[[dict[str, Any]], Any]
OUTSIDE = "outside"


@dataclass(frozen=True, slots=True)
class _Expected:
    """What one run leaves, but for what no two runs have in common."""

    rows: dict[str, Counter[str]]
    changing: dict[str, frozenset[str]]

    @classmethod
    def of(cls, one: Rows, other: Rows) -> _Expected:
        changing = {table: _changing(one[table], other.get(table, [])) for table in one}
        return cls({table: _counted(rows, changing[table]) for table, rows in one.items()}, changing)

    def compare(self, found: Rows) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        """What there is too much, and what is missing."""
        counted = {table: _counted(rows, self.changing.get(table, frozenset())) for table, rows in found.items()}
        return _surplus(counted, self.rows), _surplus(self.rows, counted)


def _surplus(many: dict[str, Counter[str]], few: dict[str, Counter[str]]) -> dict[str, list[str]]:
    """By table the rows of ``many`` that ``few`` lacks; tables without any are left out."""
    found = {table: list((rows - few.get(table, Counter())).elements()) for table, rows in many.items()}
    return {table: rows for table, rows in found.items() if rows}


def _changing(some: list[dict[str, Any]], others: list[dict[str, Any]]) -> frozenset[str]:
    """The columns whose values differ between two runs."""

    def values(rows: list[dict[str, Any]], column: str) -> Counter[str]:
        return Counter(json.dumps(row.get(column)) for row in rows)

    columns = {column for row in [*some, *others] for column in row}
    return frozenset(column for column in columns if values(some, column) != values(others, column))


def _counted(rows: list[dict[str, Any]], without: frozenset[str]) -> Counter[str]:
    return Counter(
        json.dumps({column: value for column, value in row.items() if column not in without}, sort_keys=True)
        for row in rows
    )


@dataclass(frozen=True, slots=True)
class _Trials:
    task: Task[Any, Any]
    request: JobRequest
    database_url: str | None
    outside: Callable[[], Sequence[object]]
    ask: Ask

    async def run(self, *kills: int) -> tuple[Rows, dict[str, Any]]:
        """One attempt for each of ``kills`` on a fresh copy; what lies there then, and the answer of the last one."""
        async with copied(self.database_url) as url:
            done = len(self.outside())
            job_id = str(uuid4())
            answers = [
                await self.ask(
                    {
                        "job_id": job_id,
                        # Each trial is a job of its own: another system must not take it for the one before.
                        "key": job_id,
                        "payload": self.request.payload,
                        "attempt": attempt,
                        "kill_at": kill_at,
                        "database_url": url,
                    }
                )
                for attempt, kill_at in enumerate(kills, start=1)
            ]
            found = await rows_of(url)
            found[OUTSIDE] = [{"effect": str(one)} for one in self.outside()[done:]]
            return found, {**answers[-1], "place": answers[0].get("place", "")}

    async def crash(self, number: int, expected: _Expected) -> Crash:
        """Killed at await ``number``, then run to the end."""
        found, answer = await self.run(number, NEVER)
        return Crash(number, answer["place"], *expected.compare(found), answer["error"])


@asynccontextmanager
async def _server(one: Task[Any, Any]) -> AsyncIterator[Ask]:
    """A process that has imported the task's module, and runs what it is asked to."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "mainspring.testing.crash_server", one.handler.__module__, one.name),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=environment,
    )
    assert process.stdin is not None  # noqa: S101  both were asked for
    assert process.stdout is not None  # noqa: S101
    writer, reader = process.stdin, process.stdout

    async def ask(order: dict[str, Any]) -> dict[str, Any]:
        writer.write(json.dumps(order).encode() + b"\n")
        line = await reader.readline()
        if not line:
            raise InvalidInput("task", f"{one.handler.__module__} can't be imported, or has no task {one.name}")
        answer: dict[str, Any] = json.loads(line)
        return {"error": None, "awaits": 0, **answer}

    try:
        yield ask
    finally:
        writer.close()
        await process.wait()
