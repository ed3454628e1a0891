"""Programs of Debian that some tests need: found, or installed where that is possible; else the test is skipped."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from mainspring.devstack import debian
from mainspring.devstack.cache import cache_locked
from mainspring.devstack.errors import ProvisioningError


def program(package: str, path: str) -> Path:
    """The file ``path`` of a package, installed first if need be. Skips the test where that can't be."""
    found = Path(path)
    if not found.exists() and os.geteuid() == 0 and shutil.which("apt-get"):
        with cache_locked():
            try:
                if not found.exists():
                    debian.install(package)
            except ProvisioningError as error:
                pytest.skip(f"no {package} here: {error}")
    if not found.exists():
        pytest.skip(f"no {package} here: install that package to run this test")
    return found
