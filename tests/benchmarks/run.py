"""`make bench NAME=…`: run one benchmark, print a table, and the figures as JSON in the last line."""

from __future__ import annotations

import importlib
import json
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

NAMES = ("drain", "latency", "recovery", "herd", "flow")
ROOT = Path(__file__).parents[2]


def main(arguments: list[str]) -> int:
    """Run the named benchmark."""
    if len(arguments) != 1 or arguments[0] not in NAMES:
        print(f"NAME is one of: {', '.join(NAMES)}", file=sys.stderr)
        return 2
    sys.path.insert(0, str(ROOT))
    figures = importlib.import_module(f"tests.benchmarks.{arguments[0]}").run()
    figures |= {"commit": _commit(), "python": platform.python_version(), "machine": platform.machine()}
    _print_table(figures)
    print(json.dumps(figures))
    return 0


def _print_table(figures: dict[str, Any]) -> None:
    table = Table(title=f"bench {figures['name']}", show_header=False)
    for name, value in figures.items():
        if name == "cpu_us_per_job":
            for part, microseconds in value.items():
                table.add_row(f"CPU for each job, {part}", f"{microseconds} µs")
            table.add_row("CPU for each job, all", f"{sum(value.values()):.1f} µs")
        elif name not in {"runs", "name", "ok"}:
            table.add_row(name, str(value))
    Console(file=sys.stdout).print(table)


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
