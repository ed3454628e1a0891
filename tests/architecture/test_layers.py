"""The layers: every contract of pyproject.toml is kept, and each one notices when it is broken."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]


#: For each contract a module that breaks it and no other.
BREACHES = {
    "Arrows point downwards": ("libs/mainspring/store", "import mainspring.runtime.loop"),
    "Services never import each other": (
        "services/mainspring_services/scheduler",
        "import mainspring_services.dispatcher.main",
    ),
    "The domain is pure: the standard library's values and croniter": ("libs/mainspring/domain", "import asyncio"),
    "Only the store speaks Postgres": ("libs/mainspring/runtime", "import asyncpg"),
    "Only the broker package speaks AMQP": ("libs/mainspring/worker", "import aio_pika"),
    "Only the api service speaks the HTTP framework": ("services/mainspring_services/worker", "import fastapi"),
}


def copy_of_the_tree(to):
    for part in ("libs", "services"):
        shutil.copytree(ROOT / part, to / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", to)
    # A layer that is named before its first module is written.
    for name in re.findall(r"mainspring\.\w+", " ".join(CONTRACTS[0]["layers"])):
        package = to / "libs" / name.replace(".", "/")
        if not package.with_suffix(".py").exists():
            package.mkdir(exist_ok=True)
            (package / "__init__.py").touch()
    return to


def faults(tree):
    """What each contract has against ``tree``: nothing, when it is kept."""
    paths = os.pathsep.join(str(tree / part) for part in ("libs", "services"))
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--no-logo"]
    environment = os.environ | {"PYTHONPATH": paths, "COLUMNS": "200"}
    found = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    verdicts = dict(re.findall(r"^(.+?) (KEPT|BROKEN)\b", found.stdout, re.MULTILINE))
    reasons = dict(re.findall(r"^(\S.*)\n-+\n\n((?:.+\n|\n(?!\S.*\n-+\n))+)", found.stdout, re.MULTILINE))
    assert verdicts.keys() == {contract["name"] for contract in CONTRACTS}, found.stdout + found.stderr
    return {name: reasons[name] if verdict == "BROKEN" else "" for name, verdict in verdicts.items()}


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return faults(copy_of_the_tree(tmp_path_factory.mktemp("kept")))


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    tree = copy_of_the_tree(tmp_path_factory.mktemp("broken"))
    for folder, line in BREACHES.values():
        (tree / folder / "breach.py").write_text(f'"""A forbidden import."""\n\n{line}  # noqa: F401\n')
    return faults(tree)


@pytest.mark.parametrize("contract", [contract["name"] for contract in CONTRACTS])
def test_a_contract_is_kept(kept, contract):
    imports = set(re.findall(r"\S+ -> \S+", kept[contract]))
    assert imports or not kept[contract]
    assert imports == set()


@pytest.mark.parametrize("contract", [contract["name"] for contract in CONTRACTS])
def test_a_contract_notices_a_forbidden_import(broken, contract):
    folder, line = BREACHES[contract]
    breach = f"{Path(folder).parent.name}.{Path(folder).name}.breach"
    assert f"{breach} -> {line.split()[1]}" in broken[contract]
    assert broken[contract].count(".breach ->") == 1


def test_the_domain_imports_no_installed_package_but_croniter():
    installed = {
        name
        for path in (ROOT / "libs/mainspring/domain").glob("*.py")
        for name in re.findall(r"^\s*(?:from|import) (\w+)", path.read_text(), re.MULTILINE)
        if name not in sys.stdlib_module_names and name != "mainspring"
    }
    assert installed <= {"croniter"}
