"""What ``import mainspring`` gives, and what it costs."""

from __future__ import annotations

import inspect
import subprocess
import sys

import mainspring

HEAVY = ("asyncpg", "aio_pika", "aiormq", "fastapi", "uvicorn", "opentelemetry", "prometheus_client", "structlog")


def test_the_public_names_are_exactly_what_is_importable():
    importable = {
        name for name, value in vars(mainspring).items() if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert importable == set(mainspring.__all__)


def test_the_public_names_are_few_sorted_and_of_ours():
    assert len(mainspring.__all__) <= 20
    assert list(mainspring.__all__) == sorted(mainspring.__all__)
    assert all(getattr(mainspring, name).__module__.startswith("mainspring.") for name in mainspring.__all__)


def test_every_public_name_says_what_it_is():
    assert [name for name in mainspring.__all__ if not inspect.getdoc(getattr(mainspring, name))] == []


def test_importing_it_loads_no_driver_and_no_framework():
    code = f"import sys, mainspring; print(*sorted(set({HEAVY!r}) & sys.modules.keys()))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []
