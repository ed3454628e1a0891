"""API keys in Postgres."""

from __future__ import annotations

import secrets
from collections.abc import Collection
from typing import Any
from uuid import UUID, uuid4

from mainspring.domain.access import ApiKey, Scope, hash_of, key_text
from mainspring.store.pool import Conn
from mainspring.store.sql import load

_SQL = load("api_keys")
_SECRET_BYTES = 32


async def create(connection: Conn, name: str, scopes: Collection[Scope]) -> tuple[UUID, str]:
    """Make a key; returns its id and its text, which nobody can read again."""
    key_id, secret = uuid4(), secrets.token_urlsafe(_SECRET_BYTES)
    await connection.execute(_SQL["create"], key_id, name, hash_of(secret), [scope.value for scope in scopes])
    return key_id, key_text(key_id, secret)


async def list_all(connection: Conn) -> list[Any]:
    """All keys that ever were, without their hashes."""
    return list(await connection.fetch(_SQL["all"]))


async def valid(connection: Conn) -> dict[UUID, ApiKey]:
    """The keys that are not revoked."""
    return {
        row["id"]: ApiKey(row["id"], row["name"], row["secret_hash"], frozenset(map(Scope, row["scopes"])))
        for row in await connection.fetch(_SQL["valid"])
    }


async def revoke(connection: Conn, key_id: UUID) -> bool:
    """Make a key useless; False when there is none of this id."""
    return bool(await connection.fetchrow(_SQL["revoke"], key_id))


async def note_use(connection: Conn, key_ids: Collection[UUID]) -> None:
    """Note that these keys were used now."""
    await connection.execute(_SQL["note_use"], list(key_ids))
