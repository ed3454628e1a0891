"""Who may do what: API keys and their scopes. A key is shown once; what is stored can't be turned back into it."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

_PREFIX = "msk"


class Scope(StrEnum):
    """What a key is good for. None holds another, but ``admin``, which holds all."""

    READ = "read"
    SUBMIT = "submit"
    OPERATE = "operate"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as it is stored."""

    id: UUID
    name: str
    secret_hash: bytes
    scopes: frozenset[Scope]

    def allows(self, scope: Scope) -> bool:
        """Whether it is good for ``scope``."""
        return scope in self.scopes or Scope.ADMIN in self.scopes

    def fits(self, secret: str) -> bool:
        """Whether ``secret`` is this key's; takes as long for a wrong one as for the right one."""
        return hmac.compare_digest(hash_of(secret), self.secret_hash)


def hash_of(secret: str) -> bytes:
    """What is stored of a secret."""
    return hashlib.sha256(secret.encode()).digest()


def key_text(key_id: UUID, secret: str) -> str:
    """What its owner sends: ``msk_<id>_<secret>``."""
    return f"{_PREFIX}_{key_id.hex}_{secret}"


def read_key(text: str) -> tuple[UUID, str] | None:
    """The id and the secret in a key's text, or None for what no key looks like."""
    match text.split("_", 2):
        case [prefix, key_id, secret] if prefix == _PREFIX and len(key_id) == 32 and secret.isascii():
            try:
                return UUID(key_id), secret
            except ValueError:
                return None
    return None
