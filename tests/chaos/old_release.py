"""An older release of this repository, unpacked into a folder, for services that run beside those of this one."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = ["libs", "services"]
MIGRATIONS = "libs/mainspring/store/migrations"


@dataclass(frozen=True, slots=True)
class OldRelease:
    """A commit, and where its packages lie."""

    revision: str
    folder: Path

    @property
    def import_path(self) -> str:
        """What goes first on PYTHONPATH."""
        return os.pathsep.join(str(self.folder / part) for part in PARTS)


def unpack(folder: Path, revision: str = "") -> OldRelease:
    """Unpack a commit below ``folder``: the one that is named, else the one before this release.

    Skips the test where there is no history, or no such commit.
    """
    revision = _git("rev-parse", "--short", f"{revision or _release_before()}^{{commit}}").decode().strip()
    target = folder / "old-release"
    target.mkdir()
    with tarfile.open(fileobj=io.BytesIO(_git("archive", revision, *PARTS))) as archive:
        archive.extractall(target, filter="data")
    return OldRelease(revision, target)


def _release_before() -> str:
    """The last commit before HEAD that differs in what is installed and has no migration that HEAD lacks or changed."""
    known = _migrations("HEAD")
    for revision in _git("rev-list", "HEAD").decode().split()[1:]:
        if _migrations(revision) <= known and _git("diff", "--name-only", revision, "HEAD", "--", *PARTS):
            return revision
    pytest.skip("no older release in this repository's history")


def _migrations(revision: str) -> set[str]:
    """The migrations of a commit, each with the hash of its text."""
    return set(_git("ls-tree", "-r", revision, MIGRATIONS).decode().splitlines())


def _git(*arguments: str) -> bytes:
    try:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no history to take an older release from: {error}")
