"""A node's home holds the applications that it needs, and no others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mainspring.devstack.rabbit_home import small_home

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def server(tmp_path: Path) -> Path:
    """An installation of four applications."""
    full = tmp_path / "full"
    application(full, "rabbit", "[kernel, stdlib,\n    ra]")
    application(full, "ra", "[kernel]")
    application(full, "management", "[rabbit]")
    application(full, "shovel", "[rabbit]")
    (full / "sbin").mkdir()
    (full / "sbin" / "rabbitmq-server").write_text("#!/bin/sh\n")
    return full / "sbin" / "rabbitmq-server"


def test_only_what_is_needed_is_laid_out(server: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert small_home(server, home, ["rabbit", "management"]) == home / "sbin" / "rabbitmq-server"
    assert not (home / "sbin" / "rabbitmq-server").is_symlink()
    assert {folder.name for folder in (home / "plugins").iterdir()} == {"rabbit-1.0", "ra-1.0", "management-1.0"}


def test_an_unknown_layout_is_used_as_it_is(server: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert small_home(server, home, ["rabbit", "packed as an archive"]) == server
    assert not home.exists()


def application(full: Path, name: str, dependencies: str) -> None:
    folder = full / "plugins" / f"{name}-1.0" / "ebin"
    folder.mkdir(parents=True)
    resource = f'{{application, {name}, [\n  {{vsn, "1.0"}},\n  {{applications, {dependencies}}}\n]}}.\n'
    (folder / f"{name}.app").write_text(resource)
