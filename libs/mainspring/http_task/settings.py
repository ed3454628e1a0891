"""The knobs of the ``http`` task: ``MAINSPRING_HTTP_<NAME>``, read by the workers that load it."""

from __future__ import annotations

import base64
import binascii
from urllib.parse import urlsplit

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from mainspring.domain.errors import Misconfigured
from mainspring.runtime.settings import Settings

_SECRET_PREFIX = "whsec_"  # noqa: S105  the prefix of the Standard Webhooks specification, no secret
#: By the schemes of the two servers; a later host of a list has none.
_PORTS = {"amqp": 5672, "amqps": 5671}


class HttpSettings(Settings):
    """What the ``http`` task can be told."""

    model_config = SettingsConfigDict(env_prefix="MAINSPRING_HTTP_", extra="ignore", populate_by_name=True)

    #: Networks, addresses and host names that may be called though they are not public, separated by commas.
    allow: str = ""
    #: Signs each request (Standard Webhooks): `whsec_` and base64, or any text.
    secret: str = Field(default="", repr=False)
    #: Bytes of an answer's body that are kept at most. A result has 256 KiB of JSON, in which a byte can be six.
    answer_bytes: int = Field(default=32_768, ge=0, le=40_000)

    def allowed(self) -> tuple[str, ...]:
        """The entries of ``allow``."""
        return tuple(part.strip().lower() for part in self.allow.split(",") if part.strip())

    def key(self) -> bytes | None:
        """The key that signs, if there is one. Raises Misconfigured."""
        if not self.secret:
            return None
        if not self.secret.startswith(_SECRET_PREFIX):
            return self.secret.encode()
        try:
            return base64.b64decode(self.secret.removeprefix(_SECRET_PREFIX), validate=True)
        except binascii.Error:
            raise Misconfigured(f"MAINSPRING_HTTP_SECRET: what follows {_SECRET_PREFIX} is not base64") from None

    def own_servers(self) -> tuple[tuple[str, int], ...]:
        """Host and port of Postgres and RabbitMQ: never called, wherever they are."""
        urls = ",".join((self.database_url, self.direct_url, self.amqp_url)).split(",")
        return tuple({server for url in urls if (server := _server_of(url))})


def _server_of(url: str) -> tuple[str, int] | None:
    try:
        parts = urlsplit(url if "//" in url else f"//{url}")
        port = parts.port or _PORTS.get(parts.scheme, 5432)
    except ValueError:
        return None
    return (parts.hostname, port) if parts.hostname else None
