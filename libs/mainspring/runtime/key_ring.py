"""The keys that let callers in: read from Postgres again and again, so that a revoked one is out within seconds."""

from __future__ import annotations

import asyncio
import time
from uuid import UUID

from mainspring.domain.access import ApiKey, Scope, read_key
from mainspring.domain.errors import Forbidden, Unauthenticated
from mainspring.runtime.loop import Pass
from mainspring.store import api_keys
from mainspring.store.pool import Database

REFRESH_SECONDS = 2.0
#: An unknown key may be a new one: look at most this often, however many unknown ones are tried.
LOOK_SECONDS = 0.25
_SCHEME = "bearer "


class KeyRing:
    """Says who a caller is. Without any key, ``is_open`` decides whether whoever comes is let in."""

    def __init__(self, database: Database, *, is_off: bool, is_open: bool) -> None:
        self._database = database
        self._is_off = is_off
        self._is_open = is_open
        self._keys: dict[UUID, ApiKey] = {}
        self._used: set[UUID] = set()
        self._read_at = 0.0
        self._looking = asyncio.Lock()

    @property
    def has_keys(self) -> bool:
        """True when there was a valid key at the last reading."""
        return bool(self._keys)

    async def run_once(self) -> Pass:
        """Read the keys once, and keep when they were used."""
        used, self._used = self._used, set()
        if used:
            await self._database.run(lambda connection: api_keys.note_use(connection, used))
        self._read_at = time.monotonic()
        self._keys = await self._database.run(api_keys.valid)
        return Pass(done=len(self._keys))

    async def caller(self, authorization: str | None, scope: Scope) -> str:
        """The name of the caller's key. Raises Unauthenticated, Forbidden."""
        if self._is_off:
            return "anybody"
        if authorization is None:
            if self._is_open and not self._keys:
                return "local"
            raise Unauthenticated("send an API key: `Authorization: Bearer …`")
        key = await self._find(authorization)
        if not key.allows(scope):
            raise Forbidden(f"the key {key.name} lacks the scope {scope.value}")
        self._used.add(key.id)
        return key.name

    async def _look_again(self, asked_at: float) -> None:
        """Read the keys after ``asked_at``: a key that was made just now is good at once. All who ask share a look."""
        async with self._looking:
            if self._read_at <= asked_at:
                await asyncio.sleep(max(self._read_at + LOOK_SECONDS - time.monotonic(), 0))
                await self.run_once()

    async def _find(self, authorization: str) -> ApiKey:
        scheme, text = authorization[: len(_SCHEME)], authorization[len(_SCHEME) :]
        given = read_key(text.strip()) if scheme.lower() == _SCHEME else None
        if given is None:
            raise Unauthenticated("this is no API key: `Authorization: Bearer msk_…`")
        key_id, secret = given
        if key_id not in self._keys:
            await self._look_again(time.monotonic())
        key = self._keys.get(key_id)
        if key is None or not key.fits(secret):
            raise Unauthenticated("the key is not known, or revoked")
        return key
