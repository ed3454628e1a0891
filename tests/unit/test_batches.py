"""Tasks that take many jobs: how they are declared, and in place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

from mainspring import InvalidInput, JobContext, Permanent, RetryPolicy
from mainspring.batches import Batch, batch_task
from mainspring.domain.errors import Misconfigured
from mainspring.domain.states import Outcome, State
from mainspring.testing import run_inline


class Document(BaseModel):
    id: int
    text: str = ""


@batch_task("index", most=3, queue="search", retry=RetryPolicy(max_attempts=2))
async def index(batch: Batch[Document]) -> None:
    for job in batch:
        if job.payload.id == 0:
            job.fail(Permanent("no such document"))
        elif job.payload.id > 1:
            job.succeed({"id": job.payload.id, "attempt": job.attempt})


@batch_task("index.plainly")
def index_plainly(batch: Batch[Document]) -> None:
    raise ValueError(f"{len(batch)} document")


def test_a_request_is_checked_against_the_model() -> None:
    request = index.request(id=1, text="a")
    assert (request.task, request.queue, json.loads(request.payload)) == ("index", "search", {"id": 1, "text": "a"})
    with pytest.raises(InvalidInput, match=r"payload\.id"):
        index.request(id="first")
    assert index.payload_schema()["required"] == ["id"]


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("most", {"most": 0}),
        ("most", {"most": 1001}),
        ("wait", {"wait": -0.1}),
        ("wait", {"wait": 1.1}),
        ("wait", {"wait": float("nan")}),
        ("timeout", {"timeout": 0}),
        ("queue", {"queue": "No"}),
        ("circuit", {"circuit": "a" * 56}),
    ],
)
def test_an_option_out_of_range_is_refused_by_name(field: str, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=field):
        batch_task("t", **options)


async def of_context(ctx: JobContext) -> None: ...


async def of_nothing() -> None: ...


async def of_two(batch: Batch[Document], more: int) -> None: ...


async def of_integers(batch: Batch[int]) -> None: ...  # type: ignore[type-var]


async def unsaid(batch) -> None: ...  # type: ignore[no-untyped-def]


@pytest.mark.parametrize("handler", [of_context, of_nothing, of_two, of_integers, unsaid])
def test_a_handler_takes_one_batch_of_a_model(handler: Any) -> None:
    with pytest.raises(Misconfigured, match=r"needs one parameter, of type Batch\[Model\]"):
        batch_task("t")(handler)


async def test_in_place_a_job_is_a_batch_of_one() -> None:
    assert (await run_inline(index, index.request(id=1))).state is State.SUCCEEDED
    said = await run_inline(index, index.request(id=2))
    assert said.result == {"id": 2, "attempt": 1}
    dead = await run_inline(index, index.request(id=0))
    assert (dead.state, len(dead.attempts)) == (State.DEAD, 1)
    again = await run_inline(index_plainly, index_plainly.request(id=1))
    assert [one.outcome for one in again.attempts] == [Outcome.FAILED] * 4
    assert again.attempts[0].error is not None
    assert again.attempts[0].error.message == "1 document"
