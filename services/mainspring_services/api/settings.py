"""The api's knobs: ``MAINSPRING_API_<NAME>``."""

from __future__ import annotations

import ipaddress
import ssl
from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from mainspring.domain.errors import Misconfigured
from mainspring.runtime.settings import Settings


class ApiSettings(Settings):
    """What an api process can be told."""

    model_config = SettingsConfigDict(env_prefix="MAINSPRING_API_", extra="ignore", populate_by_name=True)

    #: Where the API listens.
    host: str = "127.0.0.1"
    #: 0 takes a free port and logs it.
    port: int = Field(default=8080, ge=0, le=65535)
    #: `on`: API keys are asked for, on loopback once there is one; `off` lets anybody in.
    auth: Literal["on", "off"] = "on"
    #: A certificate chain in PEM; with `tls_key` the API speaks HTTPS alone.
    tls_cert: Path | None = None
    #: The certificate's private key in PEM.
    tls_key: Path | None = None
    #: Bytes of a request's body at most.
    body_bytes: int = Field(default=16 * 1024 * 1024, ge=1024)
    #: Seconds that a request's body may take.
    body_seconds: float = Field(default=30.0, gt=0)

    @property
    def is_open(self) -> bool:
        """True when nobody but this machine can come in: no key is needed until there is one."""
        return _is_loopback(self.host)

    def tls(self) -> dict[str, str]:
        """What the server is told of TLS; nothing without a certificate. Raises Misconfigured."""
        if self.tls_cert is None and self.tls_key is None:
            return {}
        if self.tls_cert is None or self.tls_key is None:
            raise Misconfigured("MAINSPRING_API_TLS_CERT and MAINSPRING_API_TLS_KEY belong together: one is missing")
        try:
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(self.tls_cert, self.tls_key)
        except OSError as error:
            raise Misconfigured(f"MAINSPRING_API_TLS_CERT, MAINSPRING_API_TLS_KEY: {error}") from None
        return {"ssl_certfile": str(self.tls_cert), "ssl_keyfile": str(self.tls_key)}

    def check_access(self, *, has_keys: bool) -> None:
        """Beyond this machine there must be keys, or an explicit word. Raises Misconfigured."""
        if self.auth == "on" and not self.is_open and not has_keys:
            raise Misconfigured(
                f"MAINSPRING_API_HOST is {self.host} and there is no API key: make one with `mainspring keys create`,"
                " or set MAINSPRING_API_AUTH=off to let anybody in"
            )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
