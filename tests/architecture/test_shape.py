"""The shape of the code: figures to look at (``pytest -s``), and the few limits that are hard."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median

import pytest

ROOT = Path(__file__).parents[2]
MOST_FUNCTION_LINES = 60
MOST_FILE_LINES = 300
#: Where everything may be caught, how often, and why.
CATCHES_EVERYTHING = {
    "libs/mainspring/runtime/loop.py": (1, "a failed pass ends here, logged, and the next one follows"),
    "libs/mainspring/worker/executor.py": (2, "whatever a handler raises becomes an outcome"),
    "libs/mainspring/worker/batch_executor.py": (
        3,
        "whatever a handler raises becomes an outcome, for each of its jobs",
    ),
    "libs/mainspring/runtime/batcher.py": (1, "handed on to the callers, whose errors these are"),
    "libs/mainspring/store/pool.py": (1, "raised again, once the pool has the connection back"),
    "libs/mainspring/testing/crash_server.py": (
        3,
        "a child's end is its answer, and what it awaits raises is handed on",
    ),
    "libs/mainspring/testing/inline.py": (1, "whatever a handler raises becomes an outcome, as in a worker"),
    "libs/mainspring/worker/loader.py": (1, "a user's module may raise anything while it is imported"),
    "libs/mainspring/worker/faults.py": (2, "an exception's own methods may raise anything while it is described"),
}
NESTS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.Match)
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Shape:
    """One function."""

    place: str
    lines: int
    parameters: int
    depth: int


def nesting(node):
    if isinstance(node, ast.If) and [type(one) for one in node.orelse] == [ast.If]:
        # An elif lies beside its if, not in it.
        return max(1 + max(map(nesting, node.body)), nesting(node.orelse[0]))
    inner = max((nesting(child) for child in ast.iter_child_nodes(node) if not isinstance(child, Function)), default=0)
    return inner + isinstance(node, NESTS)


def shape_of(function, path):
    body = function.body[1:] if ast.get_docstring(function) and len(function.body) > 1 else function.body
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return Shape(
        f"{path}:{function.lineno} {function.name}",
        body[-1].end_lineno - body[0].lineno + 1,
        len([one for one in named if one.arg not in ("self", "cls")]),
        max(nesting(statement) for statement in body),
    )


@cache
def trees():
    paths = sorted(path for part in ("libs", "services") for path in (ROOT / part).rglob("*.py"))
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in paths}


@cache
def functions():
    return [
        shape_of(node, path) for path, tree in trees().items() for node in ast.walk(tree) if isinstance(node, Function)
    ]


def file_lines():
    return {path: len((ROOT / path).read_text().splitlines()) for path in trees()}


def methods():
    return {
        f"{path} {node.name}": sum(isinstance(part, Function) for part in node.body)
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def largest(figures):
    name, value = max(figures.items(), key=lambda item: item[1])
    return f"{value} ({name})"


def test_the_figures_are_printed():
    lines = {one.place: one.lines for one in functions()}
    print(
        f"\nfunction bodies  {len(lines)}: p50 {median(lines.values()):g}"
        f"  p90 {percentile(lines.values(), 0.9)}  p99 {percentile(lines.values(), 0.99)}  max {largest(lines)}"
        f"\nfiles            {len(trees())}: median {median(file_lines().values()):g}  max {largest(file_lines())}"
        f"\nparameters       max {largest({one.place: one.parameters for one in functions()})}"
        f"\nnesting          max {largest({one.place: one.depth for one in functions()})}"
        f"\nmethods          max {largest(methods())}"
    )
    assert len(lines) > 100


def test_no_function_is_longer_than_a_screen():
    assert [one for one in functions() if one.lines > MOST_FUNCTION_LINES] == []


def test_no_file_is_longer_than_300_lines():
    assert {path: count for path, count in file_lines().items() if count > MOST_FILE_LINES} == {}


def catches_everything(node):
    if isinstance(node, ast.ExceptHandler):
        named = [node.type] if not isinstance(node.type, ast.Tuple) else node.type.elts
        return any(one is None or ast.unparse(one) in ("Exception", "BaseException") for one in named)
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("suppress"):
        return any(ast.unparse(one) in ("Exception", "BaseException") for one in node.args)
    return False


def test_everything_is_caught_only_where_a_reason_is_given():
    found = Counter(path for path, tree in trees().items() for node in ast.walk(tree) if catches_everything(node))
    assert found == {path: count for path, (count, _) in CATCHES_EVERYTHING.items()}


@pytest.mark.parametrize(
    ("code", "is_found"),
    [
        ("try: pass\nexcept Exception: pass", True),
        ("try: pass\nexcept BaseException as error: pass", True),
        ("try: pass\nexcept: pass", True),
        ("try: pass\nexcept (ValueError, Exception): pass", True),
        ("with contextlib.suppress(Exception): pass", True),
        ("try: pass\nexcept (ValueError, OSError): pass", False),
        ("with suppress(OSError): pass", False),
    ],
)
def test_every_way_to_catch_everything_is_found(code, is_found):
    assert any(catches_everything(node) for node in ast.walk(ast.parse(code))) is is_found
