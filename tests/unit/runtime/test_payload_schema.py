"""Payloads checked against the catalogue's schemas."""

from __future__ import annotations

import jsonschema_rs
import pytest

from mainspring.domain.errors import InvalidInput
from mainspring.domain.job import JobRequest
from mainspring.runtime.payload_schema import PayloadSchemas

CHARGE = {
    "type": "object",
    "properties": {
        "cents": {"type": "integer"},
        "customer": {"type": "string", "format": "uuid"},
        "lines": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
    },
}


@pytest.fixture
def schemas():
    validator = jsonschema_rs.validator_for(CHARGE, validate_formats=True)
    return PayloadSchemas(database=None, _validators={"billing.charge": validator})


@pytest.mark.parametrize("payload", ["{}", '{"cents": 5}', '{"customer": "018f22e2-79b0-7cc3-98c4-dc0c0c07398f"}'])
def test_a_payload_that_fits_is_taken(schemas, payload):
    schemas.check(JobRequest("billing.charge", payload))


@pytest.mark.parametrize(
    ("payload", "field"),
    [
        ('{"cents": "five"}', "payload.cents"),
        ('{"cents": 5.5}', "payload.cents"),
        ('{"customer": "me"}', "payload.customer"),
        ('{"lines": [{"n": 1}, {"n": null}]}', "payload.lines.1.n"),
    ],
)
def test_a_payload_that_does_not_fit_is_refused_by_the_path_of_its_fault(schemas, payload, field):
    with pytest.raises(InvalidInput) as refusal:
        schemas.check(JobRequest("billing.charge", payload))
    assert refusal.value.field == field


def test_a_task_that_is_not_known_takes_any_object(schemas):
    schemas.check(JobRequest("report.make", '{"cents": "five"}'))


def test_a_refusal_stays_short_whatever_the_payload(schemas):
    with pytest.raises(InvalidInput) as refusal:
        schemas.check(JobRequest("billing.charge", '{"cents": "' + "5" * 100_000 + '"}'))
    assert len(refusal.value.message) <= 500
