"""Circuits as they are stored. One that isn't closed has a limit of its own, by which releases and admissions go."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from mainspring.domain.circuit import LIMIT_PREFIX, MOST_CIRCUITS, Circuit, CircuitState, CircuitTerms, Signal
from mainspring.domain.errors import InvalidInput, Misconfigured, NotFound
from mainspring.store.pool import Conn
from mainspring.store.sql import load
from mainspring.store.wakeups import DUE_CHANNEL

_SQL = load("circuits")
_TERMS = ("failures", "period_seconds", "share", "hold_seconds")
LONGEST_ERROR = 500


@dataclass(frozen=True, slots=True)
class StoredCircuit:
    """A circuit at ``now``, and what a person sees beside it."""

    circuit: Circuit
    now: datetime
    tasks: tuple[str, ...]
    opened_by: str | None
    note: str | None
    last_error: str | None


async def register(connection: Conn, names: Collection[str]) -> None:
    """Make circuits that tasks name. In the transaction that writes the tasks. Raises Misconfigured for the 101st."""
    if names:
        if await connection.fetchval(_SQL["count"], sorted(names)) > MOST_CIRCUITS:
            raise Misconfigured(f"at most {MOST_CIRCUITS} circuits, and the tasks here would make more")
        await _make(connection, sorted(names), CircuitTerms())
    await connection.execute(_SQL["refit"])


async def all_circuits(connection: Conn, name: str | None = None) -> list[StoredCircuit]:
    """All circuits by name, or the one of that name."""
    return [
        StoredCircuit(_circuit(row), row["now"], tuple(row["tasks"]), row["opened_by"], row["note"], row["last_error"])
        for row in await connection.fetch(_SQL["all"], name)
    ]


async def set_terms(connection: Conn, name: str, terms: CircuitTerms) -> None:
    """Make a circuit, or change when it opens. In a transaction."""
    if await connection.fetchval(_SQL["count"], [name]) > MOST_CIRCUITS:
        raise InvalidInput("name", f"at most {MOST_CIRCUITS} circuits; this would be one more")
    await _make(connection, [name], terms)
    before, now = await _lock(connection, name)
    level = min(before.left(now), float(terms.failures))
    await _save(connection, before, replace(before, terms=terms, level=level, level_at=now))


async def hear(connection: Conn, name: str, signals: Sequence[Signal], error: str | None = None) -> CircuitState:
    """Tell a circuit how attempts ended; returns how it stands then. In a transaction.

    ``error``: the last of their errors, kept for a person. One that nobody knows (any more) is closed.
    """
    try:
        before, now = await _lock(connection, name)
    except NotFound:
        return CircuitState.CLOSED
    after = before.after(signals, now)
    await _save(connection, before, after, last_error=error)
    return after.state(now)


async def open_for(connection: Conn, name: str, hold: timedelta, author: str | None, note: str | None) -> None:
    """Open a circuit by hand; after ``hold`` it is probed. In a transaction. Raises NotFound."""
    before, now = await _lock(connection, name)
    await _save(connection, before, before.opened(now, hold), opened_by=author, note=note)


async def close(connection: Conn, name: str) -> None:
    """Close a circuit by hand, with its whole budget. In a transaction. Raises NotFound."""
    before, now = await _lock(connection, name)
    await _save(connection, before, before.closed(now))


async def delete(connection: Conn, name: str) -> bool:
    """Forget a circuit that no task names. In a transaction. Raises NotFound; False: a task names it."""
    await _lock(connection, name)
    gone = await connection.fetchrow(_SQL["delete"], name)
    if gone is not None:
        await connection.execute(_SQL["let_go"], name)
    return gone is not None


async def _make(connection: Conn, names: Sequence[str], terms: CircuitTerms) -> None:
    await connection.execute(_SQL["register"], names, *(getattr(terms, each) for each in _TERMS))


async def _lock(connection: Conn, name: str) -> tuple[Circuit, datetime]:
    row = await connection.fetchrow(_SQL["lock"], name)
    if row is None:
        raise NotFound(f"no circuit {name}")
    return _circuit(row), row["now"]


async def _save(
    connection: Conn,
    before: Circuit,
    after: Circuit,
    *,
    opened_by: str | None = None,
    note: str | None = None,
    last_error: str | None = None,
) -> None:
    await connection.execute(
        _SQL["save"],
        *(after.name, after.level, after.level_at, after.open_until, after.opened_at),
        *(after.probes, after.passed, after.openings),
        *(getattr(after.terms, each) for each in _TERMS),
        *(opened_by, note, last_error[:LONGEST_ERROR] if last_error else None),
    )
    if (after.open_until, after.probes) == (before.open_until, before.probes):
        return
    if after.open_until is None:
        await connection.execute(_SQL["let_go"], after.name)
    else:
        await connection.execute(_SQL["hold"], LIMIT_PREFIX + after.name, after.name, after.probes, after.open_until)
    await connection.execute(_SQL["wake"], DUE_CHANNEL)


def _circuit(row: Any) -> Circuit:
    terms = CircuitTerms(*(row[each] for each in _TERMS))
    return Circuit(
        row["name"],
        terms,
        row["level"],
        row["level_at"],
        row["open_until"],
        row["opened_at"],
        row["probes"],
        row["passed"],
        row["openings"],
    )
