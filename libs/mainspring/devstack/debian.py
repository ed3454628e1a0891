"""RabbitMQ from its Debian or Ubuntu packages: installed by root, or unpacked into a cache by anybody."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from mainspring.devstack.errors import ProvisioningError
from mainspring.devstack.programs import RabbitPrograms

if TYPE_CHECKING:
    from collections.abc import Iterator

_POLICY = Path("/usr/sbin/policy-rc.d")
_FORBIDDEN = 101  # what a policy answers to forbid an action (invoke-rc.d(8), policy-rc.d)
_POLICY_TEXT = f"#!/bin/sh\n# mainspring: no service starts while a package is installed\nexit {_FORBIDDEN}\n"
_ENABLED = Path("/etc/systemd/system")
_LINES_OF_BLAME = 5


def install(package: str) -> None:
    """Install a package as root without starting its service; raises ProvisioningError."""
    print(f"mainspring: installing {package} by apt-get (its service is not started)", file=sys.stderr)
    patient = ["-o", "DPkg::Lock::Timeout=300"]
    command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *patient, package]
    with services_held(_POLICY, package):
        enabled = _enabled_units()
        _retried(command, after=[["dpkg", "--configure", "-a"], ["apt-get", "update", "-qq", *patient]])
        _disable(_enabled_units() - enabled)


@contextlib.contextmanager
def services_held(policy: Path, service: str) -> Iterator[None]:
    """Forbid the package manager to start services; afterwards the machine's policy is what it was before."""
    mend_policy(policy)
    if _forbids(policy, service):
        yield
        return
    if policy.exists():
        policy.replace(_former(policy))
    policy.write_text(_POLICY_TEXT)
    policy.chmod(0o755)
    try:
        yield
    finally:
        mend_policy(policy)


def mend_policy(policy: Path = _POLICY) -> None:
    """Put the machine's policy back in place, should an installation that was killed have left ours there."""
    if policy.exists() and policy.read_text() == _POLICY_TEXT:
        policy.unlink()
        if _former(policy).exists():
            _former(policy).replace(policy)


def unpacked_rabbit(root: Path) -> RabbitPrograms | None:
    """What `unpack_rabbit` has put below this folder; None if it has not."""
    return _programs_in(root) if root.exists() else None


def unpack_rabbit(root: Path) -> RabbitPrograms:
    """Fetch RabbitMQ's and Erlang's packages and unpack them into this folder; no root is needed.

    Raises ProvisioningError.
    """
    print(f"mainspring: unpacking RabbitMQ from its packages into {root} (once)", file=sys.stderr)
    unfinished = root.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    downloads = unfinished / "packages"
    downloads.mkdir(parents=True)
    for package in _download(downloads):
        _run(["dpkg", "-x", str(package), str(unfinished)])
    shutil.rmtree(downloads)
    _relocate(unfinished / "usr/lib/erlang", root / "usr/lib/erlang")
    unfinished.rename(root)
    return _programs_in(root)


def _download(folder: Path) -> list[Path]:
    # With lists of its own: a user may not refresh the machine's, and a fresh container has none.
    lists = folder / "lists"
    (lists / "partial").mkdir(parents=True)
    own = ["-o", f"Dir::State::lists={lists}", "-o", f"Dir::Cache={folder}", "-o", "APT::Sandbox::User=root"]
    _run(["apt-get", *own, "update", "-qq"])
    _run(["apt-get", *own, "download", "-qq", *_packages(own)], cwd=folder)
    return sorted(folder.glob("*.deb"))


def _packages(own: list[str]) -> list[str]:
    """RabbitMQ and all of Erlang that it depends on; the rest of what they need is in every Debian."""
    others = ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")
    only_depends = [f"--no-{kind}" for kind in others]
    names = _run(["apt-cache", *own, "depends", "--recurse", *only_depends, "rabbitmq-server"]).splitlines()
    return [name for name in names if name.startswith("erlang-") or name == "rabbitmq-server"]


def _relocate(unpacked: Path, final: Path) -> None:
    """Write the folder where Erlang will lie into its start scripts, which know the packaged one only."""
    for script in [*unpacked.glob("bin/*"), *unpacked.glob("erts-*/bin/*")]:
        if script.name in {"erl", "start"} and not script.is_symlink():
            script.write_text(script.read_text().replace("/usr/lib/erlang", str(final)))


def _programs_in(root: Path) -> RabbitPrograms:
    epmd = next((root / "usr/lib/erlang").glob("erts-*/bin/epmd"))
    path = f"{root}/usr/bin:{os.environ.get('PATH', os.defpath)}"
    return RabbitPrograms(root / "usr/lib/rabbitmq/bin/rabbitmq-server", epmd, {"PATH": path})


def _forbids(policy: Path, service: str) -> bool:
    if not os.access(policy, os.X_OK):
        return False
    answer = subprocess.run([policy, service, "start"], check=False, capture_output=True)
    return answer.returncode == _FORBIDDEN


def _former(policy: Path) -> Path:
    return policy.with_name(f"{policy.name}.before-mainspring")


def _enabled_units() -> set[str]:
    return {link.name for link in _ENABLED.glob("*.wants/*")}


def _disable(units: set[str]) -> None:
    """Keep what the installation enabled (RabbitMQ, Erlang's epmd) from starting at the next boot."""
    systemctl = shutil.which("systemctl")
    if units and systemctl:
        _run([systemctl, "disable", "--quiet", *sorted(units)])


def _retried(command: list[str], after: list[list[str]]) -> None:
    """Run a command; if it fails, once more after these: a fresh machine has no lists of packages yet."""
    try:
        _run(command)
    except ProvisioningError:
        for remedy in after:
            _run(remedy)
        _run(command)


def _run(command: list[str], cwd: Path = Path("/")) -> str:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        blame = "\n".join((done.stderr or done.stdout).strip().splitlines()[-_LINES_OF_BLAME:])
        raise ProvisioningError(f"`{' '.join(command)}` failed:\n{blame}")
    return done.stdout
