"""`make mutants`: takes each mechanism out of a copy of this tree and runs the tests that have to notice.

The last line on stdout is one JSON object: for each mechanism the test that failed, or null. The exit code is 0 only if
every one was noticed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .catalogue import MUTANTS, Edit, Mutant

ROOT = Path(__file__).parents[2]
COPIED = ("libs", "services", "tests", "docs", "pyproject.toml", "README.md")
SECONDS = 300


def apply(edit: Edit, tree: Path) -> None:
    """Make one edit. Raises LookupError when what it takes out isn't there (any more)."""
    path = tree / edit.path
    text = path.read_text()
    if edit.old not in text:
        raise LookupError(f"{edit.path} has no {edit.old!r}")
    path.write_text(text.replace(edit.old, edit.new, 1))


def noticed_by(mutant: Mutant) -> str | None:
    """The first of its tests that fails without the mechanism; None when all pass."""
    with tempfile.TemporaryDirectory(prefix="mainspring-mutant-") as name:
        tree = Path(name)
        for part in COPIED:
            copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
            copy(ROOT / part, tree / part)
        for edit in mutant.edits:
            apply(edit, tree)
        path = os.pathsep.join(str(tree / part) for part in ("libs", "services", ""))
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--tb=line", *mutant.tests]
        done = subprocess.run(
            command,
            cwd=tree,
            env=os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{mutant.name}: the tests did not run\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    failed = re.search(r"^FAILED (\S+)", done.stdout, re.MULTILINE)
    return failed[1] if failed else None


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--only", default="", help="a part of the name of those to try")
    asked = parser.parse_args()
    found: dict[str, str | None] = {}
    for mutant in MUTANTS:
        if asked.only in mutant.name:
            began = time.monotonic()
            found[mutant.name] = noticed_by(mutant)
            verdict = found[mutant.name] or "NOT NOTICED"
            print(f"{time.monotonic() - began:5.1f} s  {mutant.name}: {verdict}", file=sys.stderr, flush=True)
    is_ok = bool(found) and all(found.values())
    print(json.dumps({"ok": is_ok, "mutants": found}))
    return 0 if is_ok else 1


if __name__ == "__main__":
    sys.exit(main())
