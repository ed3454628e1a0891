"""The api's knobs: ``MAINSPRING_API_<NAME>``."""

from __future__ import annotations

import ipaddress
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
    #: `off` lets anybody in, and says so; anything else is for API keys.
    auth: Literal["on", "off"] = "on"
    #: Bytes of a request's body at most.
    body_bytes: int = Field(default=16 * 1024 * 1024, ge=1024)
    #: Seconds that a request's body may take.
    body_seconds: float = Field(default=30.0, gt=0)

    def check_access(self) -> None:
        """Without keys only this machine may come in. Raises Misconfigured."""
        if self.auth == "off" or _is_loopback(self.host):
            return
        raise Misconfigured(f"MAINSPRING_API_HOST is {self.host}: set MAINSPRING_API_AUTH=off to let anybody in")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
