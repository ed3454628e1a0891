"""Declaring tasks: typed requests, payloads checked against the handler's annotations."""

from __future__ import annotations

import json
from datetime import date, timedelta
from decimal import Decimal
from enum import StrEnum
from types import ModuleType
from typing import Annotated, Literal
from uuid import UUID

import pytest
from pydantic import BaseModel, Field

from mainspring import InvalidInput, JobContext, JobRequest, RetryPolicy, TaskRegistry, task
from mainspring.domain.errors import Misconfigured

CUSTOMER = UUID("018f22e2-79b0-7cc3-98c4-dc0c0c07398f")
POLICY = RetryPolicy(max_attempts=5, base=1, factor=2, cap=60)


class Currency(StrEnum):
    EUR = "eur"


class Line(BaseModel):
    text: str
    cents: int


@task("billing.charge", queue="billing", timeout=30, retry=POLICY)
async def charge(
    ctx: JobContext,
    *,
    customer: UUID,
    cents: Annotated[int, Field(ge=0)],
    month: date = date(2026, 1, 1),
    currency: Currency = Currency.EUR,
    lines: list[Line] = [],  # noqa: B006  pydantic copies a default
    mode: Literal["now", "later"] = "now",
    rate: Decimal | None = None,
) -> int:
    return cents


@task("report.make")
def make_report(ctx: JobContext, name, pages=3):
    return name


def field_of(work):
    with pytest.raises(InvalidInput) as refusal:
        work()
    return refusal.value.field


def test_a_request_names_its_task_and_options_and_carries_its_arguments():
    request = charge.request(customer=CUSTOMER, cents=5, lines=[Line(text="a", cents=5)], rate=Decimal("1.5"))
    assert isinstance(request, JobRequest)
    assert (request.task, request.queue, request.timeout) == ("billing.charge", "billing", timedelta(seconds=30))
    assert request.retry == POLICY
    assert json.loads(request.payload) == {
        "customer": str(CUSTOMER),
        "cents": 5,
        "month": "2026-01-01",
        "currency": "eur",
        "lines": [{"text": "a", "cents": 5}],
        "mode": "now",
        "rate": "1.5",
    }


def test_what_goes_in_as_a_request_comes_out_as_arguments():
    given = {"customer": CUSTOMER, "cents": 5, "month": date(2026, 2, 1), "rate": Decimal("1.50")}
    arguments = charge.arguments_from(charge.request(**given).payload)
    assert arguments == {"currency": Currency.EUR, "lines": [], "mode": "now"} | given


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"cents": "five"}, "payload.cents"),
        ({"cents": -1}, "payload.cents"),
        ({"cents": 1.5}, "payload.cents"),
        ({"cents": None}, "payload.cents"),
        ({"customer": "me"}, "payload.customer"),
        ({"mode": "never"}, "payload.mode"),
        ({"lines": [{"text": "a", "cents": 1}, {"text": "a"}]}, "payload.lines.1.cents"),
        ({"extra": 1}, "payload.extra"),
        ({"ctx": 1}, "payload.ctx"),
    ],
)
def test_an_argument_that_does_not_fit_is_refused_by_its_path(changes, field):
    assert field_of(lambda: charge.request(**({"customer": CUSTOMER, "cents": 5} | changes))) == field


def test_a_missing_argument_is_refused_by_its_name():
    assert field_of(lambda: charge.request(customer=CUSTOMER)) == "payload.cents"


def test_arguments_are_given_by_name():
    assert field_of(lambda: charge.request(CUSTOMER)) == "payload"


@pytest.mark.parametrize(
    ("payload", "field"),
    [
        ("{}", "payload.customer"),
        (f'{{"customer": "{CUSTOMER}", "cents": "x"}}', "payload.cents"),
        (f'{{"customer": "{CUSTOMER}", "cents": 5, "extra": 1}}', "payload.extra"),
        ("[]", "payload"),
        ("{", "payload"),
    ],
)
def test_a_stored_payload_that_does_not_fit_is_refused_by_its_path(payload, field):
    assert field_of(lambda: charge.arguments_from(payload)) == field


def test_a_handler_without_annotations_takes_any_json_and_its_defaults():
    request = make_report.request(name={"any": [1, None]})
    assert make_report.arguments_from(request.payload) == {"name": {"any": [1, None]}, "pages": 3}


@pytest.mark.parametrize("value", ["a\0b", "\ud800"])
def test_w06_an_argument_that_cannot_be_stored_is_refused(value):
    assert field_of(lambda: make_report.request(name=value)).startswith("payload")


def test_a_task_has_the_defaults_of_the_design():
    assert (make_report.queue, make_report.timeout, make_report.retry) == (
        "default",
        timedelta(seconds=300),
        RetryPolicy(max_attempts=4, base=1, factor=10, cap=60),
    )


def test_async_handlers_are_told_from_sync_ones():
    assert charge.is_async
    assert not make_report.is_async


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"name": "Bad Name"}, "task"),
        ({"name": ""}, "task"),
        ({"queue": "Bad Queue"}, "queue"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": timedelta(seconds=-1)}, "timeout"),
    ],
)
def test_a_bad_option_is_refused_by_its_name(options, field):
    assert field_of(lambda: task(**({"name": "a.task"} | options))) == field


def test_a_handler_needs_a_place_for_its_context():
    with pytest.raises(Misconfigured, match=r"a\.task"):

        @task("a.task")
        async def handler():
            return None


def test_the_schema_of_the_payload_is_that_of_the_annotations():
    schema = charge.payload_schema()
    assert schema["required"] == ["customer", "cents"]
    assert schema["properties"]["customer"] == {"format": "uuid", "title": "Customer", "type": "string"}
    assert schema["properties"]["cents"]["minimum"] == 0
    assert schema["additionalProperties"] is False
    assert "ctx" not in schema["properties"]


def test_a_registry_finds_tasks_by_name():
    registry = TaskRegistry([charge, make_report])
    assert (len(registry), list(registry)) == (2, [charge, make_report])
    assert registry.get("billing.charge") is charge
    assert registry.get("billing.refund") is None


def test_two_tasks_of_one_name_are_refused_by_their_name():
    @task("billing.charge")
    async def impostor(ctx):
        return None

    registry = TaskRegistry([charge])
    registry.add(charge)
    with pytest.raises(Misconfigured, match=r"billing\.charge"):
        registry.add(impostor)


def test_a_module_gives_its_tasks_and_nothing_else():
    module = ModuleType("billing")
    vars(module).update(charge=charge, again=charge, other=5, RetryPolicy=RetryPolicy)
    registry = TaskRegistry()
    registry.add_module(module)
    assert list(registry) == [charge]


def test_declaring_a_task_keeps_its_handler_as_it_is():
    assert make_report.handler(None, "a") == "a"


@pytest.mark.parametrize(
    "labels", ["gpu", ["GPU"], ["a b"], ["region="], ["=eu"], ["a,b"], [f"l{n}" for n in range(33)]]
)
def test_labels_that_a_task_can_t_require(labels):
    with pytest.raises(InvalidInput, match="requires"):
        task("t", requires=labels)


def test_labels_are_kept_in_order_and_once():
    @task("t", requires=["region=eu", "gpu", "gpu"])
    async def labelled(ctx): ...

    assert labelled.requires == ("gpu", "region=eu")


@pytest.mark.parametrize("slots", [0, 1001, -1])
def test_a_job_takes_some_slots(slots):
    with pytest.raises(InvalidInput, match="slots"):
        task("t", slots=slots)
