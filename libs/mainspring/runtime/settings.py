"""Settings from the environment: ``MAINSPRING_<SERVICE>_<SETTING>``, each also as ``…_FILE``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field, ValidationError, field_validator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from mainspring.domain.errors import Misconfigured

S = TypeVar("S", bound="Settings")


class _FromFile(PydanticBaseSettingsSource):
    """Reads a setting from the file that ``<VARIABLE>_FILE`` names: for mounted secrets."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        variable = field.validation_alias or f"{self.config.get('env_prefix', '')}{field_name}"
        path = os.environ.get(f"{str(variable).upper()}_FILE")
        try:
            return (Path(path).read_text().strip() if path else None), field_name, False
        except OSError as error:
            raise Misconfigured(f"{str(variable).upper()}_FILE: {error}") from None

    def __call__(self) -> dict[str, Any]:
        found = {name: self.get_field_value(field, name)[0] for name, field in self.settings_cls.model_fields.items()}
        return {name: value for name, value in found.items() if value is not None}


class Settings(BaseSettings):
    """The two servers, and what every process needs. A service adds its own knobs, each with a sentence."""

    model_config = SettingsConfigDict(extra="ignore", populate_by_name=True)

    database_url: str = Field(
        default="postgresql://postgres@127.0.0.1:5432/postgres", validation_alias="MAINSPRING_DATABASE_URL"
    )
    #: Past a pooler: migrations and LISTEN. The same as database_url unless set.
    database_direct_url: str | None = Field(default=None, validation_alias="MAINSPRING_DATABASE_DIRECT_URL")
    #: One URL or several, separated by commas.
    amqp_url: str = Field(default="amqp://guest:guest@127.0.0.1:5672/", validation_alias="MAINSPRING_AMQP_URL")
    #: Connections to Postgres that this process keeps at most.
    database_connections: int = Field(default=6, ge=1, le=100)
    #: Where /livez, /readyz and /metrics listen.
    health_host: str = "127.0.0.1"
    #: 0 takes a free port and logs it.
    health_port: int = Field(default=0, ge=0, le=65535)
    log_level: str = "INFO"

    @field_validator("database_url", "database_direct_url")
    @classmethod
    def _is_of_postgres(cls, url: str | None) -> str | None:
        return _with_scheme(url, "postgresql://", "postgres://") if url else url

    @field_validator("amqp_url")
    @classmethod
    def _are_of_amqp(cls, urls: str) -> str:
        return ",".join(_with_scheme(url.strip(), "amqp://", "amqps://") for url in urls.split(","))

    @property
    def direct_url(self) -> str:
        """The URL for migrations and LISTEN."""
        return self.database_direct_url or self.database_url

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        del dotenv_settings, file_secret_settings
        return init_settings, env_settings, _FromFile(settings_cls)


def _with_scheme(url: str, *schemes: str) -> str:
    # The URL itself isn't said: it may hold a password.
    if not url.startswith(schemes):
        raise PydanticCustomError("scheme", f"a URL must begin with {' or '.join(schemes)}")
    return url


def read(settings: type[S]) -> S:
    """Read a service's settings. Raises Misconfigured that names the variable."""
    try:
        return settings()
    except ValidationError as error:
        first = error.errors()[0]
        prefix = settings.model_config.get("env_prefix", "")
        name = ".".join(str(part) for part in first["loc"])
        variable = name if name.startswith("MAINSPRING") else f"{prefix}{name}".upper()
        raise Misconfigured(f"{variable}: {first['msg']}") from None
