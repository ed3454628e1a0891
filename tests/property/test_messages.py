"""Messages: what is written is read back; what isn't ours is refused, and nothing else is raised."""

from __future__ import annotations

import contextlib
import json

from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.broker.messages import JobBatch, decode, encode, split
from mainspring.domain.errors import UnreadableMessage
from mainspring.domain.job import NAME, JobRef

STEADY = settings(derandomize=True, deadline=None, database=None)
names = st.from_regex(NAME, fullmatch=True)
refs = st.builds(JobRef, st.uuids(), st.integers(0, 2**63 - 1))
batches = st.builds(JobBatch, names, st.lists(refs, min_size=1, max_size=20).map(tuple))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
#: Objects that look like a message in some of their fields.
lookalikes = st.fixed_dictionaries(
    {},
    optional={
        "v": st.just(1) | values,
        "queue": names | values,
        "jobs": st.lists(st.tuples(st.uuids().map(str) | values, st.integers() | values) | values) | values,
    },
)


@STEADY
@given(batches)
def test_a_message_is_read_back_as_it_was_written(batch):
    assert decode(encode(batch)) == batch


def read_or_refuse(body):
    with contextlib.suppress(UnreadableMessage):
        batch = decode(body)
        assert decode(encode(batch)) == batch


@STEADY
@given(st.binary())
def test_d08_arbitrary_bytes_are_refused_and_nothing_else_is_raised(body):
    read_or_refuse(body)


@STEADY
@given(lookalikes | values)
def test_d08_arbitrary_json_is_read_or_refused_and_nothing_else_is_raised(value):
    read_or_refuse(json.dumps(value).encode())


@STEADY
@given(batches, st.data())
def test_d08_a_damaged_message_is_read_or_refused_and_nothing_else_is_raised(batch, data):
    body = bytearray(encode(batch))
    place = data.draw(st.integers(0, len(body) - 1))
    body[place : place + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=3))
    read_or_refuse(bytes(body))


@STEADY
@given(names, st.lists(refs, max_size=60), st.integers(1, 30))
def test_cutting_loses_nothing_and_keeps_the_order(queue, many, most):
    cut = list(split(queue, many, most))
    assert [ref for batch in cut for ref in batch.refs] == many
    assert all(1 <= len(batch.refs) <= most for batch in cut)
