"""Importing users' modules."""

from __future__ import annotations

import sys
from datetime import timedelta
from types import ModuleType

import pytest

from mainspring import RetryPolicy, task
from mainspring.domain.errors import Misconfigured
from mainspring.worker.loader import catalogue_entry, load


@task(
    "billing.charge",
    queue="billing",
    timeout=30,
    retry=RetryPolicy(max_attempts=2),
    circuit="payments-api",
    requires=["region=eu", "gpu"],
)
async def charge(ctx, *, cents: int) -> int:
    return cents


@task("billing.refund")
def refund(ctx):
    return None


@pytest.fixture
def module(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])

    def make(name, **names):
        one = ModuleType(name)
        vars(one).update(names)
        monkeypatch.setitem(sys.modules, name, one)

    return make


def test_the_tasks_of_all_modules_are_collected(module):
    module("billing_one", charge=charge, other=5, dict=dict)
    module("billing_two", refund=refund)
    registry = load(["billing_one", "billing_two"])
    assert [one.name for one in registry] == ["billing.charge", "billing.refund"]
    assert registry.get("billing.charge") is charge


def test_one_task_under_two_names_or_in_two_modules_is_one(module):
    module("billing_one", charge=charge, again=charge)
    module("billing_two", charge=charge)
    assert len(load(["billing_one", "billing_two", "billing_one"])) == 1


def test_two_tasks_of_one_name_are_refused_by_their_name(module):
    @task("billing.charge")
    async def impostor(ctx):
        return None

    module("billing_one", charge=charge)
    module("billing_two", charge=impostor)
    with pytest.raises(Misconfigured, match=r"billing\.charge"):
        load(["billing_one", "billing_two"])


@pytest.mark.usefixtures("module")
def test_a_module_that_is_not_there_is_refused_by_its_name():
    with pytest.raises(Misconfigured, match="no_such_module"):
        load(["no_such_module"])


def test_modules_without_a_task_are_refused_by_their_names(module):
    module("billing_none", other=5)
    with pytest.raises(Misconfigured, match="billing_none"):
        load(["billing_none"])


@pytest.mark.usefixtures("module")
def test_no_modules_are_refused():
    with pytest.raises(Misconfigured, match="no modules"):
        load([])


def test_the_working_directory_is_searched_first_and_once(module, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    module("billing_one", charge=charge)
    load(["billing_one"])
    load(["billing_one"])
    assert sys.path.index(str(tmp_path)) == 0
    assert sys.path.count(str(tmp_path)) == 1


def test_the_catalogue_keeps_what_settling_needs_without_the_code():
    entry = catalogue_entry(charge)
    schema = entry.pop("payload_schema")
    assert entry == {
        "name": "billing.charge",
        "queue": "billing",
        "timeout_seconds": timedelta(seconds=30).total_seconds(),
        "retry": RetryPolicy(max_attempts=2).as_json(),
        "circuit": "payments-api",
        "slots": 1,
        "requires": ["gpu", "region=eu"],
        "batch": None,
    }
    assert schema["properties"]["cents"]["type"] == "integer"
    assert schema["required"] == ["cents"]
    assert schema["additionalProperties"] is False
