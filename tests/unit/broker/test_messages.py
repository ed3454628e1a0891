"""The one message, and every body that is not it."""

from __future__ import annotations

import json
from uuid import UUID

import pytest

from mainspring.broker.messages import MOST_REFS, JobBatch, decode, encode, split
from mainspring.domain.errors import UnreadableMessage
from mainspring.domain.job import JobRef

ID = "018f22e279b07cc398c4dc0c0c07398f"
REF = JobRef(UUID(ID), 3)


def body(**changes):
    envelope = {"v": 1, "queue": "billing", "jobs": [[ID, 3]]} | changes
    return json.dumps({name: value for name, value in envelope.items() if value is not ...}).encode()


def test_a_body_is_the_documented_json():
    assert encode(JobBatch("billing", (REF,))) == f'{{"v":1,"queue":"billing","jobs":[["{ID}",3]]}}'.encode()


def test_a_documented_body_is_read():
    assert decode(body()) == JobBatch("billing", (REF,))


def test_a_message_says_that_its_jobs_are_admitted():
    batch = JobBatch("billing", (REF,), is_admitted=True)
    assert encode(batch) == f'{{"v":1,"queue":"billing","jobs":[["{ID}",3]],"admitted":true}}'.encode()
    assert decode(encode(batch)) == batch


def test_a_hundred_jobs_are_read_in_their_order():
    refs = tuple(JobRef(UUID(int=number), number) for number in range(100, 0, -1))
    assert decode(encode(JobBatch("billing", refs))).refs == refs


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"", "empty"),
        (b"\xff\xfe", "not_utf8"),
        (b"{", "not_json"),
        (b"\0", "not_json"),
        (b"[" * 100_000, "not_json"),
        (b'{"v":' + b"9" * 5000 + b"}", "not_json"),
        (b"[]", "not_an_object"),
        (b"null", "not_an_object"),
        (b'"x"', "not_an_object"),
        (b'{"job_id":"not-a-uuid"}', "unknown_version"),
        (body(v=2), "unknown_version"),
        (body(v="1"), "unknown_version"),
        (body(v=...), "unknown_version"),
        (body(queue=...), "bad_queue"),
        (body(queue=5), "bad_queue"),
        (body(queue=""), "bad_queue"),
        (body(queue="A B"), "bad_queue"),
        (body(queue="x" * 64), "bad_queue"),
        (body(queue="\ud800"), "bad_queue"),
        (body(jobs=...), "bad_job_list"),
        (body(jobs=[]), "bad_job_list"),
        (body(jobs={}), "bad_job_list"),
        (body(jobs=[[ID, 3]] * 101), "bad_job_list"),
        (body(jobs=[["not-a-uuid", 1]]), "bad_job_id"),
        (body(jobs=[["", 1]]), "bad_job_id"),
        (body(jobs=[["\ud800", 1]]), "bad_job_id"),
        (body(jobs=[[ID]]), "bad_job_reference"),
        (body(jobs=[[ID, 3, 4]]), "bad_job_reference"),
        (body(jobs=[ID]), "bad_job_reference"),
        (body(jobs=[[3, ID]]), "bad_job_reference"),
        (body(jobs=[[ID, -1]]), "bad_job_reference"),
        (body(jobs=[[ID, 2**63]]), "bad_job_reference"),
        (body(jobs=[[ID, 1.0]]), "bad_job_reference"),
        (body(jobs=[[ID, True]]), "bad_job_reference"),
        (body(jobs=[[ID, "3"]]), "bad_job_reference"),
        (body(jobs=[[ID, None]]), "bad_job_reference"),
        (body(jobs=[[ID, 3], None]), "bad_job_reference"),
    ],
)
def test_d08_a_bad_body_is_refused_with_its_reason(bad, reason):
    with pytest.raises(UnreadableMessage) as refusal:
        decode(bad)
    assert refusal.value.reason == reason


@pytest.mark.parametrize("content_type", ["x", "", None, "text/json", "application/json; charset=latin-1"])
def test_d08_another_content_type_is_refused_whatever_the_body(content_type):
    with pytest.raises(UnreadableMessage) as refusal:
        decode(body(), content_type)
    assert refusal.value.reason == "wrong_content_type"


@pytest.mark.parametrize("ticket", [0, 1, 2**63 - 1])
def test_a_ticket_is_any_number_that_a_row_can_hold(ticket):
    assert decode(body(jobs=[[ID, ticket]])).refs == (JobRef(UUID(ID), ticket),)


def test_many_references_are_cut_into_messages_in_their_order():
    refs = [JobRef(UUID(int=number), number) for number in range(250)]
    batches = list(split("billing", refs))
    assert [len(batch.refs) for batch in batches] == [MOST_REFS, MOST_REFS, 50]
    assert [ref for batch in batches for ref in batch.refs] == refs
    assert {batch.queue for batch in batches} == {"billing"}


def test_no_references_make_no_message():
    assert list(split("billing", [])) == []
