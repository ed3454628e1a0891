"""The OpenAPI document tells the truth: whatever is sent, every answer is one that it names, and none is a 500."""

from __future__ import annotations

import contextlib
import re

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from .api import Api, some_rows

CHECKS = [
    schemathesis.checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
FUZZ = settings(
    max_examples=40, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", list(GenerationMode))
def test_whatever_is_sent_the_answer_is_one_that_the_document_names(api: Api, mode: GenerationMode) -> None:
    some_rows(api)
    document = schemathesis.openapi.from_url(f"{api.url}/openapi.json")
    tried = 0
    # A stream has no end to wait for: test_api_events.py.
    for result in document.exclude(path="/v1/events").get_all_operations():
        tried += _fuzz(result.ok(), mode)
    assert tried > 300


def _fuzz(operation: APIOperation, mode: GenerationMode) -> int:
    tried = 0

    @FUZZ
    @given(case=operation.as_strategy(generation_mode=mode))
    def send(case: Case) -> None:
        nonlocal tried
        tried += 1
        if case.path.endswith("/result"):
            case.query.pop("wait", None)  # it would wait a minute for jobs that nobody runs
        case.call_and_validate(checks=CHECKS)

    with contextlib.suppress(Unsatisfiable):  # an operation without parameters has no bad input
        send()
    return tried


def test_every_operation_has_a_summary_and_every_example_is_accepted(api: Api) -> None:
    document = api.http.get("/openapi.json").json()
    api.http.delete("/v1/schedules/daily-report")  # another test of this module may have made it
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation.get("description"), f"{method} {path}"
            if (body := operation.get("requestBody")) is None:
                continue
            concrete = re.sub(r"\{\w+_id\}", "01999999-0000-7000-8000-000000000000", path.replace("{name}", "example"))
            answer = api.http.request(method, concrete, json=body["content"]["application/json"]["example"])
            assert answer.status_code in (200, 201, 204, 404), (path, answer.text)


def test_an_unknown_path_and_a_wrong_method_are_problems(api: Api) -> None:
    for answer in (api.http.get("/v1/nothing"), api.http.delete("/v1/jobs")):
        assert answer.status_code in (404, 405)
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["status"] == answer.status_code


def test_the_document_is_valid_for_tools(api: Api) -> None:
    document = api.http.get("/openapi.json").json()
    references = [part for part in httpx.get(f"{api.url}/openapi.json").text.split('"') if part.startswith("#/")]
    names = {reference.rsplit("/", 1)[1] for reference in references}
    assert names <= set(document["components"]["schemas"])
    assert "HTTPValidationError" not in names
