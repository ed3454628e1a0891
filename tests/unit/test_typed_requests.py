"""A wrong argument of ``charge.request(…)`` is found by mypy --strict, before anything runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEAD = """
from uuid import UUID

from mainspring import JobContext, task


@task("billing.charge")
async def charge(ctx: JobContext, *, customer: UUID, cents: int) -> int:
    return cents


def submit(customer: UUID) -> None:
    charge.request({arguments})
"""


def complaints(tmp_path: Path, arguments: str) -> str:
    module = tmp_path / "mine.py"
    module.write_text(HEAD.replace("{arguments}", arguments))
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-error-summary",
        "--cache-dir",
        str(tmp_path),
        str(module),
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd=tmp_path).stdout


@pytest.mark.timeout(200)
def test_right_arguments_are_accepted_and_wrong_ones_found(tmp_path: Path) -> None:
    assert complaints(tmp_path, "customer=customer, cents=990") == ""
    assert 'incompatible type "str"; expected "int"' in complaints(tmp_path, 'customer=customer, cents="990"')
    assert 'Missing named argument "cents"' in complaints(tmp_path, "customer=customer")
    assert 'Unexpected keyword argument "colour"' in complaints(tmp_path, "customer=customer, cents=1, colour=2")
