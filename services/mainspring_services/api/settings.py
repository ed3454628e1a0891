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
    #: `on`: API keys are asked for, on loopback once there is one; `off` lets anybody in.
    auth: Literal["on", "off"] = "on"
    #: Bytes of a request's body at most.
    body_bytes: int = Field(default=16 * 1024 * 1024, ge=1024)
    #: Seconds that a request's body may take.
    body_seconds: float = Field(default=30.0, gt=0)

    @property
    def is_open(self) -> bool:
        """True when nobody but this machine can come in: no key is needed until there is one."""
        return _is_loopback(self.host)

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
