"""Every named query is used by the module of its aggregate, and every name that is used exists."""

from __future__ import annotations

import ast
import re
from importlib.resources import files

import pytest

from mainspring.store.sql import load, load_all

STORE = files("mainspring.store")
#: Written ahead of their module. Take a name out when its query is used, or deleted.

AGGREGATES = sorted({name.partition(".")[0] for name in load_all()})


def tree_of(aggregate):
    return ast.parse(STORE.joinpath(f"{aggregate}.py").read_text())


def words_of(aggregate):
    return {node.value for node in ast.walk(tree_of(aggregate)) if isinstance(node, ast.Constant)}


def looked_up(aggregate):
    """The names between the brackets of ``_SQL[…]``; a name that varies is not among them."""
    return {
        node.slice.value
        for node in ast.walk(tree_of(aggregate))
        if isinstance(node, ast.Subscript)
        and ast.unparse(node.value) == "_SQL"
        and isinstance(node.slice, ast.Constant)
    }


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_every_query_is_used_by_the_module_of_its_aggregate(aggregate):
    assert load(aggregate).keys() - words_of(aggregate) == set()


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_every_name_that_is_looked_up_is_a_query(aggregate):
    assert looked_up(aggregate) - load(aggregate).keys() == set()


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_a_module_loads_the_queries_of_its_own_aggregate_alone(aggregate):
    loads = re.findall(r'\bload\("(\w+)"\)', STORE.joinpath(f"{aggregate}.py").read_text())
    assert loads == [aggregate]


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_no_query_is_empty_and_no_name_is_used_twice(aggregate):
    text = STORE.joinpath("queries", f"{aggregate}.sql").read_text()
    names = re.findall(r"^-- name: (.+)$", text, re.MULTILINE)
    assert sorted(names) == sorted(load(aggregate))
    assert all(load(aggregate).values())
