"""A long run in pieces: each run is a line of a file, and what is in the file is not done again.

    python -m tests.chaos.run --campaign runs.jsonl --mix one,cluster,all --runs 10 --seed 1 --duration 600
    python -m tests.chaos.campaign runs.jsonl

The second prints the file as a Markdown table.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from .checker import Report
from .plan import Plan

Line = dict[str, Any]
MUST_BE_0 = [field.name for field in fields(Report)[4:]] + ["stops_not_clean", "deaths"]
HEAD = ["mix", "jobs", "faults", "seed", "all counters 0?", "seconds", "commit"]


@dataclass(frozen=True, slots=True)
class Piece:
    """What came of one piece of a campaign."""

    done: int
    unclean: int
    left: int


def read(path: Path) -> list[Line]:
    """The runs so far; a line that was torn by the end of its process is none."""
    found = []
    for line in path.read_text().splitlines() if path.exists() else []:
        with suppress(json.JSONDecodeError):
            found.append(json.loads(line))
    return found


def go_on(path: Path, plans: list[Plan], execute: Callable[[Plan], Line], seconds: float) -> Piece:
    """Do what the file doesn't have yet, and begin nothing that may last beyond so many seconds."""
    finished = [line["asked"] for line in read(path)]
    waiting = [plan for plan in plans if plan.asked() not in finished]
    started, longest, done, unclean = time.monotonic(), 0.0, 0, 0
    for plan in waiting:
        begun = time.monotonic()
        if done and begun - started + longest > seconds:
            break
        line = execute(plan)
        _append(path, line)
        longest = max(longest, time.monotonic() - begun)
        done, unclean = done + 1, unclean + (not line["ok"])
    return Piece(done, unclean, len(waiting) - done)


def table(lines: list[Line]) -> str:
    """The runs as a Markdown table, with their sum."""
    rows = [HEAD, ["---"] * len(HEAD), *(_row(line) for line in lines)]
    clean = sum(line["ok"] for line in lines)
    jobs, faults, seconds = (sum(line.get(name, 0) for line in lines) for name in ("accepted", "faults", "seconds"))
    rows.append(
        [f"**{len(lines)} runs**", f"{jobs}", f"{faults}", "", f"{clean} of {len(lines)}", f"{seconds:.0f}", ""]
    )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _row(line: Line) -> list[str]:
    asked = line["asked"]
    verdict = "yes" if line["ok"] else f"no: {line.get('error') or _raised(line)}"
    figures = [str(line.get("accepted", "")), str(line.get("faults", "")), str(asked["seed"])]
    return [asked["mix"], *figures, verdict, f"{line.get('seconds', 0):.0f}", line.get("commit", "")]


def _raised(line: Line) -> str:
    return ", ".join(f"`{name}` {line[name]}" for name in MUST_BE_0 if line.get(name))


def _append(path: Path, line: Line) -> None:
    with path.open("a") as file:
        if file.tell() and not path.read_text().endswith("\n"):
            file.write("\n")
        file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    print(table(read(Path(sys.argv[1]))))
