"""Idempotency keys of requests that make something other than a job: a repeat gets the first answer again."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable

from mainspring.domain.errors import InvalidInput
from mainspring.domain.job import check_key
from mainspring.store import jobs
from mainspring.store.pool import Conn


async def once(
    connection: Conn, kind: str, key: str | None, request: str, work: Callable[[], Awaitable[str]]
) -> tuple[str, bool]:
    """Do ``work`` for the first request with ``key``; return its answer, and whether it had been given before.

    ``connection`` must be in a transaction: key, work and answer are committed together. ``kind`` keeps the keys of one
    kind of request apart from all others. Raises InvalidInput when the key was used with another ``request``.
    """
    if key is None:
        return await work(), False
    check_key(key)
    # A job's key is printable, so none can be the same as this one.
    name = f"{kind}\t{key}"
    digest = hashlib.blake2b(request.encode(), digest_size=16).digest()
    await connection.execute("SET LOCAL lock_timeout = '1s'")
    id_ = jobs.new_id()
    if not await jobs.reserve_keys(connection, [(name, id_, digest)]):
        stored = (await jobs.read_keys(connection, [name]))[name]
        if stored.request_hash != digest:
            raise InvalidInput("idempotency_key", "was used with another request")
        return stored.answer or "", True
    answer = await work()
    await jobs.store_answers(connection, {name: (id_, answer)})
    return answer, False
